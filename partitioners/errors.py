"""The errors Keyspread raises for its users: one clear sentence each, with the mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class KeyspreadError(Exception):
    """Base of every error whose text is meant for the user."""

    exit_code = 1


class InputError(KeyspreadError, ValueError):
    """What was asked for cannot be done as asked; the command line exits with 2."""

    exit_code = 2


class RunError(KeyspreadError, RuntimeError):
    """A run that began well failed; the command line exits with 1."""

    exit_code = 1


def nearest(name: str, known: Iterable[str], most: int | None = None) -> str:
    """Say which known name was probably meant, then list all of them, or the nearest.

    Args:
        name: What the user wrote.
        known: The names there are.
        most: List no more than so many; None: all.

    Returns:
        A clause to end an error sentence with.

    Example:
        >>> nearest("pgk", ["pkg", "cam"])
        'did you mean "pkg"? Known: cam, pkg'
        >>> nearest("clicks", ["click-log", "clicks-eu", "orders", "users"], most=2)
        'did you mean "clicks-eu"? Known: clicks-eu, click-log and 2 more'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if most is None or len(names) <= most:
        listing = ", ".join(names)
    else:
        near = difflib.get_close_matches(name, names, n=most, cutoff=0.0)
        listing = f"{', '.join(near)} and {len(names) - len(near)} more"
    return f'did you mean "{close[0]}"? Known: {listing}' if close else f"known: {listing}"
