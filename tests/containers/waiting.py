"""Waiting for what happens outside of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_SECONDS = 180.0


def wait_until(
    condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS, every: float = 0.2
) -> None:
    """Ask again and again until it holds; never is a failure."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"never {what}"
        pause.wait(every)
