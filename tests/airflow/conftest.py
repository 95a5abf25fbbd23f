"""What needs Airflow is left out unless it is asked for: `make test-airflow`."""

from __future__ import annotations

import pytest

# A program for Airflow's Python: this one cannot import it, also not to look for doctests.
collect_ignore = ["look_at_dags.py"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out of a run whose `-m` is about other things."""
    marks = config.option.markexpr
    if "airflow" in marks and "not airflow" not in marks:
        return
    here = [item for item in items if item.get_closest_marker("airflow")]
    config.hook.pytest_deselected(items=here)
    items[:] = [item for item in items if item not in here]
