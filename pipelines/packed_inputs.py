"""Inputs that are not lines as they lie on disk: Zstandard frames and Parquet tables, streamed.

Each reader gives blocks of bytes as a file would. A Parquet file becomes lines: TPC-H's tables as
`.tbl` lines, by the names of their columns; any other as its columns in their order, with commas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partitioners.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKED_BLOCK_BYTES = 1 << 15
_ROWS_PER_BLOCK = 50_000
TPCH_COLUMNS = {
    "l_": "orderkey partkey suppkey linenumber quantity extendedprice discount tax returnflag "
    "linestatus shipdate commitdate receiptdate shipinstruct shipmode comment",
    "o_": "orderkey custkey orderstatus totalprice orderdate orderpriority clerk shippriority "
    "comment",
    "c_": "custkey name address nationkey phone acctbal mktsegment comment",
}


class _Blocks:
    """Reads what a generator gives, as a file: `read`, `tell` in what was given, `close`."""

    def __init__(self, packed: BinaryIO, blocks: Iterator[bytes]) -> None:
        self.packed = packed
        self._blocks = blocks
        self._block = memoryview(b"")
        self._given = 0

    def __enter__(self) -> _Blocks:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; none at the end."""
        while not self._block:
            block = next(self._blocks, None)
            if block is None:
                return b""
            self._block = memoryview(block)
        out = bytes(self._block[:size])
        self._block = self._block[size:]
        self._given += len(out)
        return out

    def tell(self) -> int:
        """How many bytes were read."""
        return self._given

    def close(self) -> None:
        """Close the file below."""
        self.packed.close()


class ZstdReader(_Blocks):
    """Unpacks a Zstandard file of one or several frames.

    Args:
        packed: The file, at its start.

    Raises:
        EOFError: On reading, where a frame has no end.
        zstandard.ZstdError: On reading, where it is damaged.
    """

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__(packed, _unpacked(packed))


def _unpacked(packed: BinaryIO) -> Iterator[bytes]:
    import zstandard

    make = zstandard.ZstdDecompressor().decompressobj
    frame = None
    while block := packed.read(_PACKED_BLOCK_BYTES):
        while block:
            frame = frame or make()
            yield frame.decompress(block)
            block, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame is not None:
        raise EOFError


class ParquetReader(_Blocks):
    """Reads the rows of a Parquet file as lines of text.

    Args:
        packed: The file.
        name: Its path, for messages.

    Raises:
        InputError: It is damaged, or lacks a column.
    """

    def __init__(self, packed: BinaryIO, name: str) -> None:
        try:
            file = pq.ParquetFile(packed)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(name, error) from None
        columns, separator = _columns(file.schema_arrow.names, name)
        super().__init__(packed, _lines(file, columns, separator, name))


def _columns(names: list[str], path: str) -> tuple[list[str], str]:
    """Which columns make a line, in their order, and what is between them."""
    lower = {name.lower(): name for name in names}
    for prefix, rest in TPCH_COLUMNS.items():
        if all(name.startswith(prefix) for name in lower):
            wanted = [prefix + name for name in rest.split()]
            missing = [name for name in wanted if name not in lower]
            if missing:
                raise InputError(
                    f"the Parquet input {path} has no column {missing[0]} "
                    f"({nearest(missing[0], names)}): a TPC-H table needs "
                    f"{', '.join(wanted)}, in any order"
                )
            return [lower[name] for name in wanted], "|"
    return names, ","


def _lines(file: pq.ParquetFile, columns: list[str], separator: str, path: str) -> Iterator[bytes]:
    try:
        for batch in file.iter_batches(batch_size=_ROWS_PER_BLOCK, columns=columns):
            texts = [_text(batch.column(name), name, path) for name in columns]
            lines = pc.binary_join_element_wise(*texts, separator, null_handling="replace")
            joined = "\n".join(lines.to_pylist())
            if batch.num_rows != joined.count("\n") + 1:
                raise InputError(
                    f"the Parquet input {path} has texts with line breaks, and a record is one "
                    "line: replace them"
                )
            yield f"{joined}\n".encode()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from None


def _text(column: pa.Array, name: str, path: str) -> pa.Array:
    try:
        if pa.types.is_timestamp(column.type):
            return pc.strftime(column, format="%Y-%m-%d %H:%M:%S").cast(pa.string())
        return column.cast(pa.string())
    except pa.ArrowException:
        raise InputError(
            f"column {name} of the Parquet input {path} is {column.type}, which is no text of a "
            "line: leave it out, or write it as text"
        ) from None


def _damaged(path: str, error: Exception) -> InputError:
    reason = str(error).splitlines()[0]
    return InputError(f"the Parquet input {path} is damaged ({reason[:150]}): fetch it again")
