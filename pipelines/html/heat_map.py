"""A matrix as a picture, a pixel each: a hundred times smaller than as many rectangles."""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape

import numpy as np
import numpy.typing as npt

# Anchors of a scale that rises evenly in lightness, so that it also reads in grey.
_ANCHORS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


def heat_map(
    title: str,
    values: npt.NDArray[np.float64],
    *,
    most: float,
    rows: str,
    ends: tuple[str, str],
    alt: str,
) -> str:
    """Draw a matrix.

    Args:
        title: Above it.
        values: `float64[rows, columns]`, from 0.
        most: The value of the brightest colour.
        rows: What a row is, such as "partition".
        ends: What stands below the first and the last column.
        alt: What a reader who does not see it should know.

    Returns:
        An HTML `figure`.
    """
    height = len(values)
    numbers = f"<span>{escape(rows)} 0</span>" + (
        f"<span>{height - 1}</span>" if height > 1 else ""
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><div class="heat">'
        f'<div class="rows" aria-hidden="true">{numbers}</div>'
        f'<img alt="{escape(alt)}" src="{png_uri(values, most)}">'
        f'<div class="ends" aria-hidden="true"><span>{escape(ends[0])}</span>'
        f"<span>{escape(ends[1])}</span></div></div></figure>"
    )


def scale(most: float, unit: str) -> str:
    """Draw the colours from 0 to the largest value.

    Args:
        most: The value of the brightest colour.
        unit: Behind the numbers.
    """
    ramp = np.linspace(0.0, 1.0, 64).reshape(1, -1)
    return (
        '<p class="faint key">0 <img class="scale" alt="dark to bright" '
        f'src="{png_uri(ramp, 1.0)}"> {most:.2g} {escape(unit)}</p>'
    )


def png_uri(values: npt.NDArray[np.float64], most: float) -> str:
    """Give a matrix as a PNG in a data URI.

    Args:
        values: `float64[rows, columns]`, from 0.
        most: The value of the brightest colour; larger ones have it too.

    Example:
        >>> png_uri(np.zeros((2, 3)), 1.0)[:22]
        'data:image/png;base64,'
    """
    shares = np.clip(np.nan_to_num(values) / (most or 1.0), 0.0, 1.0)
    pixels = np.round(shares * 255).astype(np.uint8)
    height, width = pixels.shape
    lines = np.zeros((height, width + 1), np.uint8)  # each begins with its filter, 0: none
    lines[:, 1:] = pixels
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", _palette()),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _palette() -> bytes:
    at = np.linspace(0, len(_ANCHORS) - 1, 256)
    channels = [
        np.interp(at, range(len(_ANCHORS)), [anchor[channel] for anchor in _ANCHORS])
        for channel in range(3)
    ]
    return np.round(np.stack(channels, axis=1)).astype(np.uint8).tobytes()


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
