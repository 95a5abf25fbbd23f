"""Values of options as a command line has them: text that may mean a number or a truth value."""

from __future__ import annotations

from typing import Any

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
