"""Opening input files: plain, gzip or standard input, told apart by their first bytes."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from partitioners.errors import InputError

STDIN = "-"
_PACKED = {
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
}


def position(raw: BinaryIO) -> int:
    """Give the bytes of the file (packed ones, if it is packed) read so far."""
    below = getattr(raw, "packed", raw)
    return int(below.tell()) if below.seekable() else 0


def is_pipe(path: Path | str) -> bool:
    """Whether it can be read once only: standard input, a named pipe, a device."""
    if str(path) == STDIN:
        return True
    file = Path(path)
    return file.exists() and not file.is_file() and not file.is_dir()


def open_input(path: Path | str) -> BinaryIO:
    """Open a plain or gzip file, or standard input (`-`), for reading bytes.

    Raises:
        InputError: It is missing, a folder, unreadable, empty or packed in another way.
    """
    if str(path) == STDIN:
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file with --input")
        file, name = sys.stdin.buffer, "standard input"
    else:
        file, name = _open_file(Path(path)), str(path)
    head = cast("io.BufferedReader", file).peek(6)[:6]
    if not head:
        file.close()
        raise InputError(f"the input {name} is empty: give a file with at least one record")
    for magic, kind in _PACKED.items():
        if head.startswith(magic):
            file.close()
            raise InputError(f"the input {name} is packed as {kind}: unpack it, or pack as .gz")
    if head.startswith(b"\x1f\x8b"):
        return cast("BinaryIO", _OwningGzip(file))
    return file


def _open_file(path: Path) -> BinaryIO:
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file, or give --input once for each file")
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(
            f"cannot read the input {path}: {error.strerror}; check the path and its permissions"
        ) from error


class _OwningGzip(gzip.GzipFile):
    """A GzipFile that closes the file below it."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__(fileobj=packed, mode="rb")
        self.packed = packed

    def close(self) -> None:
        super().close()
        self.packed.close()


def read_bytes(raw: BinaryIO, path: str, size: int) -> bytes:
    """Read from what `open_input` gave.

    Args:
        raw: The file.
        path: Its name, for the message.
        size: Bytes at most.

    Raises:
        InputError: The gzip stream is truncated or damaged, or the disk fails.
    """
    try:
        return raw.read(size)
    except EOFError:
        raise InputError(
            f"the gzip input {path} is truncated: it ends after {raw.tell():,} unpacked bytes in "
            "mid-stream; fetch the whole file again"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"the gzip input {path} is damaged after {raw.tell():,} unpacked bytes ({error}); "
            "fetch it again"
        ) from error
    except OSError as error:
        raise InputError(f"cannot read the input {path}: {error.strerror}") from error
