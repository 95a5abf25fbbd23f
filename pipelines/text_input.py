"""Text input in chunks of lines: plain, gzip, zstd or Parquet, any encoding, never whole in memory.

The encoding ``auto`` decides line by line: valid UTF-8 is UTF-8, everything else cp1252 (which is
what old Western text files are in). A byte order mark is honoured. A line that cannot be decoded
is handed to ``reject`` with its number; the lines around it go on.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from partitioners.errors import InputError
from pipelines.input_files import is_pipe, open_input, position, read_bytes, unchanged_since

AUTO = "auto"
BLOCK_BYTES = 1 << 20
LINES_PER_CHUNK = 50_000
MAX_LINE_BYTES = 8 << 20
# Compressed files up to this size are read through once before a run, so that a truncated one is
# refused before anything is started (about a second for the largest).
CHECKED_GZIP_BYTES = 32 << 20
# Stands for a byte sequence the encoding does not know; Unicode keeps it out of all text.
NOT_DECODED = "not in the encoding given"
_UNDECODABLE = "\uffff"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class LineChunk(NamedTuple):
    """Consecutive lines of one file."""

    path: str
    first_line_number: int  # counted from 1
    lines: list[str]  # without line ends


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line that is no record, and why."""

    path: str
    line_number: int
    reason: str
    text: str


Reject = Callable[[RejectedLine], None]


def read_chunks(
    path: Path | str,
    reject: Reject,
    *,
    encoding: str = AUTO,
    lines_per_chunk: int = LINES_PER_CHUNK,
    on_bytes: Callable[[int], None] = lambda _count: None,
) -> Iterator[LineChunk]:
    """Yield the decoded lines of a file, a chunk at a time.

    Args:
        path: A text file, plain or packed as gzip or zstd, or a Parquet file (told apart by their
            first bytes).
        reject: Called with every line that cannot be decoded or is too long.
        encoding: ``auto`` or the name of a Python codec.
        lines_per_chunk: The largest number of lines in a chunk.
        on_bytes: Called before each chunk with the bytes of the file (packed ones, if it is
            packed) read so far.

    Yields:
        Chunks in file order.

    Raises:
        InputError: The file cannot be read, ends in mid-stream, or changes while it is read.
    """
    name = str(path)
    decode = _line_decoder(encoding)
    first_line_number = 1
    check_unchanged = unchanged_since([path])
    with open_input(path) as raw:
        for lines in _raw_chunks(_utf8_blocks(raw, name, encoding), lines_per_chunk):
            on_bytes(position(raw))
            yield from _decoded(name, first_line_number, lines, decode, reject)
            first_line_number += len(lines)
    check_unchanged()


class InputLines:
    """The lines of several files as one stream, numbered through.

    Args:
        paths: The files, in order.
        encoding: As in `read_chunks`.
        reject: Called with every line that cannot be decoded, numbered as in its file.
        on_bytes: Called with the bytes read of all files so far.
        lines_per_chunk: The largest number of lines in a chunk.
    """

    def __init__(
        self,
        paths: Sequence[Path | str],
        encoding: str,
        reject: Reject,
        on_bytes: Callable[[int], None] = lambda _count: None,
        lines_per_chunk: int = LINES_PER_CHUNK,
    ) -> None:
        self._lines_per_chunk = lines_per_chunk
        self._paths = paths
        self._encoding = encoding
        self._reject_line = reject
        self._on_bytes = on_bytes
        self._lines_before = 0
        self._last_line = 0

    def __iter__(self) -> Iterator[LineChunk]:
        bytes_before = 0
        for path in self._paths:
            self._last_line = 0
            consumed = [0]

            def note_bytes(
                count: int, before: int = bytes_before, cell: list[int] = consumed
            ) -> None:
                cell[0] = count
                self._on_bytes(before + count)

            for chunk in read_chunks(
                path,
                self._reject,
                encoding=self._encoding,
                on_bytes=note_bytes,
                lines_per_chunk=self._lines_per_chunk,
            ):
                self._last_line = chunk.first_line_number + len(chunk.lines) - 1
                first = chunk.first_line_number + self._lines_before
                yield chunk._replace(first_line_number=first)
            self._lines_before += self._last_line
            bytes_before += consumed[0]

    def _reject(self, line: RejectedLine) -> None:
        self._last_line = max(self._last_line, line.line_number)
        self._reject_line(line)

    def as_in_file(self, line: RejectedLine) -> RejectedLine:
        """Number a line of the stream as in its file.

        Args:
            line: A line of the chunk yielded last.
        """
        return replace(line, line_number=line.line_number - self._lines_before)


def check_input(path: Path | str, encoding: str = AUTO) -> None:
    """Refuse, before a run, what can be seen cheaply to be unreadable.

    Of a pipe nothing is read: what was read would be gone.

    Args:
        path: The file.
        encoding: ``auto`` or a codec; a codec is tried on the first MiB.

    Raises:
        InputError: Missing, unreadable, empty, truncated, or not in that encoding.
    """
    _line_decoder(encoding)
    if is_pipe(path):
        return
    with open_input(path) as raw:
        head = read_bytes(raw, str(path), BLOCK_BYTES)
        if not head:
            raise InputError(f"the input {path} is empty: give a file with at least one record")
        if encoding != AUTO:
            _check_head(str(path), head, encoding)
        if hasattr(raw, "packed") and Path(path).stat().st_size <= CHECKED_GZIP_BYTES:
            while read_bytes(raw, str(path), BLOCK_BYTES):
                pass


def _check_head(path: str, head: bytes, encoding: str) -> None:
    mend = next((name for mark, name in _MARKS if head.startswith(mark)), "cp1252")
    mend = "utf-8" if _is_utf8(head) else mend
    try:
        codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError as error:
        line = head.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"line {line} of {path} is not {encoding} (byte {error.start + 1} is "
            f"0x{head[error.start]:02x}): say --encoding {mend}, or leave it out to detect it"
        ) from None
    except UnicodeError as error:
        raise _not_encoded(path, encoding, error) from None


def _not_encoded(path: str, encoding: str, error: UnicodeError) -> InputError:
    # What is wrong with a file as a whole: UTF-16 and UTF-32 need a mark at its start.
    reason = next(iter(str(error).splitlines()), "it cannot be decoded")
    return InputError(
        f"{path} is not {encoding} ({reason}): name the encoding it is in, such as utf-16-le for "
        "UTF-16 without a mark, with --encoding, or leave it out to detect it"
    )


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _utf8_blocks(raw: BinaryIO, path: str, encoding: str) -> Iterator[bytes]:
    """Blocks of bytes in which a newline byte ends a line, whatever the encoding of the file."""
    block = read_bytes(raw, path, BLOCK_BYTES)
    codec = "" if encoding == AUTO else encoding
    for mark, marked in _MARKS:
        if block.startswith(mark):
            if marked == "utf-8" and codec in ("", "utf-8", "utf8"):
                block = block[len(mark) :]
            elif marked != "utf-8" and encoding == AUTO:
                codec = marked
            break
    decoder = None
    if codec and not _keeps_newlines(codec):
        decoder = codecs.getincrementaldecoder(codec)(errors="keyspread-mark")
    while block:
        try:
            yield decoder.decode(block).encode() if decoder else block
        except UnicodeError as error:
            raise _not_encoded(path, codec, error) from None
        block = read_bytes(raw, path, BLOCK_BYTES)
    if decoder and (rest := decoder.decode(b"", final=True)):
        yield rest.encode()


def _keeps_newlines(codec: str) -> bool:
    return "a\n".encode(codec) == b"a\n"


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _UNDECODABLE, error.end


codecs.register_error("keyspread-mark", _mark)


def _raw_chunks(blocks: Iterator[bytes], lines_per_chunk: int) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    rest = io.BytesIO()  # the unfinished last line
    for block in blocks:
        head, newline, tail = block.partition(b"\n")
        rest.write(head)
        if not newline:
            continue
        lines.append(rest.getvalue())
        lines += tail.split(b"\n")
        rest = io.BytesIO()
        rest.write(lines.pop())
        while len(lines) >= lines_per_chunk:
            yield lines[:lines_per_chunk]
            del lines[:lines_per_chunk]
    if last := rest.getvalue():
        lines.append(last)
    if lines:
        yield lines


LineDecoder = Callable[[bytes], str]


def _line_decoder(encoding: str) -> LineDecoder:
    """A function that decodes one line strictly."""
    if encoding == AUTO:
        return _decode_auto
    try:
        codec = codecs.lookup(encoding)
        # Some codecs are for bytes or for names, not for lines of text.
        is_text = "".join(codecs.iterdecode(["a\nb".encode(encoding)], encoding)) == "a\nb"
    except (LookupError, ValueError):
        is_text = False
    if not is_text:
        raise InputError(
            f'unknown encoding "{encoding}": give a codec such as utf-8, cp1252, latin-1 or '
            "utf-16, or leave it out to detect it"
        )
    # Blocks of other encodings arrive here as UTF-8 already.
    name = codec.name if _keeps_newlines(codec.name) else "utf-8"
    return lambda line: line.decode(name)


def _decode_auto(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252")


def _decoded(
    path: str, first_line_number: int, lines: list[bytes], decode: LineDecoder, reject: Reject
) -> Iterator[LineChunk]:
    """Decode all lines in one call where possible, else line by line."""
    joined = b"\n".join(lines)
    try:
        text = joined.decode("utf-8") if decode is _decode_auto else decode(joined)
    except UnicodeDecodeError:
        text = _UNDECODABLE
    if _UNDECODABLE not in text and len(joined) <= MAX_LINE_BYTES:
        yield LineChunk(path, first_line_number, _without_returns(text.split("\n")))
        return
    good: list[str] = []
    start = first_line_number
    for number, raw in enumerate(lines, first_line_number):
        line, reason = _decode_line(raw, decode)
        if not reason:
            good.append(line)
            continue
        reject(RejectedLine(path, number, reason, line))
        if good:
            yield LineChunk(path, start, _without_returns(good))
        good, start = [], number + 1
    if good:
        yield LineChunk(path, start, _without_returns(good))


def _decode_line(raw: bytes, decode: LineDecoder) -> tuple[str, str]:
    """The line and, if it is no good, the reason."""
    if len(raw) > MAX_LINE_BYTES:
        return raw[:100].decode("utf-8", "backslashreplace"), (
            f"longer than {MAX_LINE_BYTES:,} bytes ({len(raw):,}); the text is cut"
        )
    try:
        line = decode(raw)
    except UnicodeDecodeError as error:
        return raw.decode("utf-8", "backslashreplace"), (
            f"cannot be decoded: byte {error.start + 1} is 0x{raw[error.start]:02x}"
        )
    return line, NOT_DECODED if _UNDECODABLE in line else ""


def _without_returns(lines: list[str]) -> list[str]:
    return [line[:-1] if line.endswith("\r") else line for line in lines]
