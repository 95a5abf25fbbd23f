"""Ctrl-C and SIGTERM at any moment: one exception, then no child process is left."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

import psutil

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
CHILD_STOP_SECONDS = 10.0


class Interrupted(BaseException):
    """A signal asked the program to stop; it passes through every ``except Exception``.

    Args:
        signal_number: Which signal it was.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.exit_code = 128 + signal_number


def _raise_interrupted(signal_number: int, _frame: FrameType | None) -> None:
    # One is enough: a second Ctrl-C must not break the stopping of what was started.
    ignore_stop_signals()
    raise Interrupted(signal_number)


def ignore_stop_signals() -> None:
    """From here on Ctrl-C and SIGTERM do nothing: clean-up is under way."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def raise_on_stop_signals() -> None:
    """Turn Ctrl-C and SIGTERM into `Interrupted` in the main thread.

    Called again after a Spark session was made, which installs a handler of its own.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, _raise_interrupted)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Run a block that may start processes; none of them outlives it, however it ends.

    Raises:
        Interrupted: A stop signal arrived in the block.
    """
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    known = {child.pid for child in psutil.Process().children()}
    raise_on_stop_signals()
    try:
        yield
    except Exception as error:
        # A stop signal often goes to all processes at once; then closing what is already gone
        # fails, and that failure is not what there is to tell.
        if (stopped := _stop_beneath(error)) is not None:
            raise stopped from None
        raise
    finally:
        ignore_stop_signals()
        stop_children(except_pids=known)
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_beneath(error: BaseException) -> Interrupted | None:
    """Find the stop signal during whose clean-up an error came up."""
    beneath = error.__context__
    while beneath is not None and not isinstance(beneath, Interrupted):
        beneath = beneath.__context__
    return beneath


def stop_children(except_pids: set[int]) -> None:
    """Stop every child process of this one, and their children, and wait until they are gone.

    Args:
        except_pids: Direct children that were there before and stay.
    """
    family = [
        process
        for child in psutil.Process().children()
        if child.pid not in except_pids
        for process in [*child.children(recursive=True), child]
    ]
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _gone, alive = psutil.wait_procs(family, timeout=CHILD_STOP_SECONDS)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=CHILD_STOP_SECONDS)
