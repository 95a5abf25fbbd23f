"""How a run that does not finish ends: what stays, and what its last sentence says."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from partitioners.errors import InputError, KeyspreadError
from pipelines.interrupt import Interrupted
from pipelines.places import DEFAULT_RUNS_DIR


@contextlib.contextmanager
def ending_in_order(folder: Path, *, resumed: bool) -> Iterator[None]:
    """Leave of a run that is refused or stopped what somebody may want, and say how to go on.

    A new run that has not begun has nothing of that: its folder goes.

    Args:
        folder: The run's folder; that of a new run is made in the block.
        resumed: Whether it was there before.
    """
    try:
        yield
    except (InputError, Interrupted) as error:
        if not (resumed or has_results(folder) or has_begun(folder)):
            shutil.rmtree(folder, ignore_errors=True)
        elif isinstance(error, Interrupted):
            say_how_to_go_on(error, folder)
        raise


def has_results(folder: Path) -> bool:
    """Whether a run is finished."""
    return (folder / "cells").exists()


def has_begun(folder: Path) -> bool:
    """Whether a run's query was started, so that it can go on."""
    return (folder / "checkpoint").exists()


def say_how_to_go_on(error: KeyspreadError | Interrupted, folder: Path) -> None:
    """Add to the sentence of an error what can be done with a run's folder."""
    # Where runs are kept elsewhere than by default, its name alone would not be found.
    run = folder.name if folder.parent == DEFAULT_RUNS_DIR else folder
    if has_results(folder):
        error.args = (f"{error}; its figures are kept: `keyspread report {run}`",)
    else:
        error.args = (f"{error}; go on with `keyspread run --resume {run}`",)
