"""Values of options as a command line has them: numbers, truth values, and lists by commas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from partitioners.errors import InputError

_WORDS = {"true": True, "false": False, "none": None}


def parse_value(text: str) -> Any:
    """Read a truth value, none, a whole number or a decimal; everything else stays text.

    Example:
        >>> [parse_value(text) for text in ("5", "0.1", "false", "None", "hll")]
        [5, 0.1, False, None, 'hll']
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def list_of(texts: Iterable[str]) -> list[str]:
    """Read an option or arguments, of which each may hold several words, split by commas.

    Example:
        >>> list_of(["pkg, cam", "lm"])
        ['pkg', 'cam', 'lm']
    """
    words = (word.strip() for text in texts for word in text.split(","))
    return [word for word in words if word]


def numbers_of(texts: Iterable[str], option: str) -> list[int]:
    """Read an option that is one or several whole numbers.

    Args:
        texts: What was given.
        option: For the message.

    Raises:
        InputError: One is no whole number of 1 or more.
    """
    numbers = []
    for word in list_of(texts):
        if not word.isascii() or not word.isdigit() or int(word) < 1:
            raise InputError(f"{option} must be whole numbers of 1 or more, not {word}")
        numbers.append(int(word))
    if not numbers:
        raise InputError(f"{option} names no number: give one, such as {option} 16")
    return numbers
