"""Keys as people may see them: safe on a terminal, short, and hashed where they are private."""

from __future__ import annotations

import hashlib

MAX_SHOWN = 60
REDACTED = "sha256:"
_HEX_DIGITS = 12


def show_key(key: object) -> str:
    r"""Write a key for reading.

    Args:
        key: Bytes, text, a number, or None. Bytes that are UTF-8 are shown as text, others
            escaped, as are characters that would move the cursor; long ones are cut.

    Example:
        >>> show_key("caf\u00e9".encode()), show_key(b"\xff\x00"), show_key("a\x1b[2J")
        ('café', "b'\\xff\\x00'", 'a\\x1b[2J')
        >>> show_key(None), show_key(b"")
        ('(null)', '(empty)')
    """
    if key is None:
        return "(null)"
    if isinstance(key, bytes):
        try:
            text = key.decode()
        except UnicodeDecodeError:
            # A part is enough, and a whole one may be a megabyte.
            text = repr(key[:MAX_SHOWN])
    else:
        text = str(key)
    if text == "":
        return "(empty)"
    short = text[:MAX_SHOWN]
    if not short.isprintable():
        short = "".join(map(_printable, short))
    return short if len(text) <= MAX_SHOWN else short + "…"


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def readable(value: object) -> object:
    """Give a value of a result as people read it: bytes as a key's name, others as they are.

    Example:
        >>> readable(b"user-7"), readable(7)
        ('user-7', 7)
    """
    return show_key(value) if isinstance(value, bytes) else value


def redact_key(key: object) -> str:
    """Write a key as a part of its SHA-256, the same in every report.

    It hides names from a reader, not from somebody who can try all names there may be.

    Args:
        key: As for `show_key`.

    Example:
        >>> redact_key(b"user-7") == redact_key("user-7")
        True
    """
    if key is None:
        return show_key(key)
    content = key if isinstance(key, bytes) else str(key).encode()
    return REDACTED + hashlib.sha256(content).hexdigest()[:_HEX_DIGITS]


def percent(share: float) -> str:
    """Write a share.

    Example:
        >>> percent(0.3289), percent(0.00123), percent(0.003), percent(0.0)
        ('32.9 %', '0.12 %', '0.30 %', '0.0 %')
    """
    return f"{100 * share:.1f} %" if share >= 0.01 or share == 0 else f"{100 * share:#.2g} %"
