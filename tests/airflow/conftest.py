"""Programs for Airflow's Python: this one cannot import them, also not to look for doctests."""

collect_ignore = ["form_in_browser.py", "look_at_dags.py"]
