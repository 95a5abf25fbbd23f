"""Opening input files: plain, gzip, zstd, Parquet or standard input, told by their first bytes."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from partitioners.errors import InputError

STDIN = "-"
_GZIP, _ZSTD, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
_SUFFIXES = {".gz": _GZIP, ".zst": _ZSTD, ".parquet": _PARQUET}
_PACKED = {
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
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
    """Open a plain, gzip, zstd or Parquet file, or standard input (`-`), for reading bytes.

    Raises:
        InputError: It is missing, a folder, unreadable, empty, packed in another way, or not what
            its name says.
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
            raise InputError(
                f"the input {name} is packed as {kind}: unpack it, or pack as .gz or .zst"
            )
    suffix = Path(name).suffix
    if not head.startswith(_SUFFIXES.get(suffix.lower(), b"")):
        file.close()
        raise InputError(
            f"the input {name} is named {suffix}, yet does not begin as one: fetch it again, or "
            f"rename it without {suffix}"
        )
    if head.startswith(_GZIP):
        return cast("BinaryIO", _OwningGzip(file))
    if head.startswith((_ZSTD, _PARQUET)):
        return _open_packed(file, name, head)
    return file


def _open_packed(file: BinaryIO, name: str, head: bytes) -> BinaryIO:
    from pipelines.packed_inputs import ParquetReader, ZstdReader

    if head.startswith(_ZSTD):
        return cast("BinaryIO", ZstdReader(file))
    if not file.seekable():
        raise InputError(
            f"{name} is a Parquet file, which cannot be read from a pipe: save it, and name the "
            "file with --input"
        )
    try:
        return cast("BinaryIO", ParquetReader(file, name))
    except InputError:
        file.close()
        raise


def unchanged_since(paths: Sequence[Path | str]) -> Callable[[], None]:
    """Remember how files are now.

    Returns:
        A function that raises an InputError where one has changed since.
    """
    before = {str(path): _stamp(path) for path in paths if not is_pipe(path)}

    def check() -> None:
        for path, stamp in before.items():
            if _stamp(path) != stamp:
                raise InputError(
                    f"the input {path} changed while it was being read: let what writes it end, "
                    "and start anew"
                )

    return check


def _stamp(path: Path | str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


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
        InputError: A packed stream is truncated or damaged, or the disk fails.
    """
    try:
        return raw.read(size)
    except EOFError:
        raise InputError(
            f"the packed input {path} is truncated: it ends after {raw.tell():,} unpacked bytes in "
            "mid-stream; fetch the whole file again"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"the gzip input {path} is damaged after {raw.tell():,} unpacked bytes ({error}); "
            "fetch it again"
        ) from error
    except OSError as error:
        raise InputError(f"cannot read the input {path}: {error.strerror}") from error
    except Exception as error:
        # zstandard is loaded only where it is used.
        if type(error).__name__ != "ZstdError":
            raise
        raise InputError(
            f"the zstd input {path} is damaged after {raw.tell():,} unpacked bytes: fetch it again"
        ) from error
