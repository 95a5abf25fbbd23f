"""The environment for a program that is started while other threads run."""

from __future__ import annotations

import os


def child_environment() -> dict[str, str]:
    """Copy this process's environment variables.

    A program that is started without such a copy is given the C library's table of them, and the
    kernel reads it while other threads go on: one that sets a variable meanwhile moves the table,
    and the start fails with "Bad address", or the program gets garbage.

    Example:
        >>> child_environment() == dict(os.environ)
        True
    """
    # A name may go between the two reads of it.
    return {name: value for name in os.environ if (value := os.environ.get(name)) is not None}
