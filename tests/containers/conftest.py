"""What needs a Docker engine, and packages for it, is looked at only if its marker asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass this folder over in a run whose `-m` is about other things."""
    marks = config.option.markexpr
    return None if "containers" in marks and "not containers" not in marks else True
