"""Where text for people goes: a terminal, or a file or pipe that keeps lines as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal

from rich.console import Console

# No line is as long: nobody's terminal sets a width, so nothing is wrapped.
_ANY_WIDTH = 100_000
_NUMBER = re.compile(r"[-+<>≥~]*[\d,]+(\.\d+)?([eE][-+]?\d+)?( ?(%|ms|s|M|k|kB|MB|MiB|GB))?|-|")
_PADDING = re.compile(r" +$", re.MULTILINE)


class _LineConsole(Console):
    """Neither wraps lines nor fills them up with blanks."""

    def print(self, *objects: Any, **options: Any) -> None:
        """See `Console.print`."""
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(_PADDING.sub("", captured.get()))
        self.file.flush()


def justify(values: Iterable[object]) -> Literal["left", "right"]:
    """Say on which side the values of a column stand: numbers on the right.

    Args:
        values: As they are, or as text; none of them, None, "" and "-" say nothing.

    Example:
        >>> justify([1, None, 2.5]), justify(["1,000", "0.3 %", "-"]), justify(["1", "one"])
        ('right', 'right', 'left')
    """
    said = [value for value in values if value not in (None, "", "-")]
    numbers = all(
        (isinstance(value, int | float | Decimal) and not isinstance(value, bool))
        or (isinstance(value, str) and _NUMBER.fullmatch(value))
        for value in said
    )
    return "right" if said and numbers else "left"


def stdout_console() -> Console:
    """Give a console for results."""
    return _console(stderr=False, quiet=False)


def stderr_console(*, quiet: bool = False) -> Console:
    """Give a console for messages and progress.

    Args:
        quiet: Show nothing.
    """
    return _console(stderr=True, quiet=quiet)


def _console(*, stderr: bool, quiet: bool) -> Console:
    console = Console(stderr=stderr, quiet=quiet)
    if console.is_terminal:
        return console
    return _LineConsole(stderr=stderr, quiet=quiet, width=_ANY_WIDTH)
