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


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, then list all of them.

    Args:
        name: What the user wrote.
        known: The names there are.

    Returns:
        A clause to end an error sentence with.

    Example:
        >>> nearest("pgk", ["pkg", "cam"])
        'did you mean "pkg"? Known: cam, pkg'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    listing = ", ".join(names)
    return f'did you mean "{close[0]}"? Known: {listing}' if close else f"known: {listing}"
