"""What the benchmark DAGs are made of. Only `factory` and `step` know Airflow."""
