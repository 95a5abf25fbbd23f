"""TPC-H tables by `tpchgen-cli`, which makes byte for byte what dbgen makes.

Its lineitem comes in the order of order keys; a replay by ship date needs the order of ship dates.
So lines go to a scratch file of their month on their way in, and month by month, sorted, into the
result: one pass each way, and memory for a month of lines.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, BinaryIO

import polars as pl

from partitioners.errors import InputError, RunError
from pipelines.child_environment import child_environment
from pipelines.datasets.folder import DataFolder

GENERATOR = "tpchgen-cli"
# Rows at scale 1; lineitem's are about so many.
ROWS = {"customer": 150_000, "orders": 1_500_000, "lineitem": 6_001_215}
MAX_SCALE = 1_000.0
_SHIP_DATE = 10
_BLOCK_BYTES = 8 << 20


def prepare_tpch(
    scale: float, out: Path, on_lines: Callable[[str, int], None] = lambda _table, _lines: None
) -> DataFolder:
    """Make `lineitem.tbl.gz` in the order of ship dates, `orders.tbl.gz` and `customer.tbl.gz`.

    Args:
        scale: TPC-H's scale factor; 1 has six million lines.
        out: The folder.
        on_lines: Called with a table and the number of lines that are done more.

    Raises:
        InputError: Scale or folder are no good, or the generator is not installed.
        RunError: The generator failed.
    """
    if not 0 < scale <= MAX_SCALE:
        raise InputError(f"--scale must be above 0 and at most {MAX_SCALE:g}, not {scale:g}")
    program = _generator()
    folder = DataFolder(out, {"data": "tpch", "scale": scale})
    for table, rows in ROWS.items():
        name = f"{table}.tbl.gz"
        if folder.has(name):
            on_lines(table, folder.files[name]["lines"])
            continue

        def done(lines: int, table: str = table) -> None:
            on_lines(table, lines)

        with tempfile.TemporaryDirectory(prefix=".sort-", dir=out) as scratch:
            blocks = _generated(program, table, scale)
            if table == "lineitem":
                blocks = _by_ship_date(blocks, Path(scratch))
            folder.write(name, blocks, done)
        if folder.files[name]["lines"] < rows * scale / 2:
            raise RunError(f"{GENERATOR} made too few lines of {table}: start it anew")
    folder.finish(["lineitem.tbl.gz"])
    return folder


def _generator() -> str:
    beside = Path(sys.executable).with_name(GENERATOR)
    found = str(beside) if beside.exists() else shutil.which(GENERATOR)
    if found is None:
        raise InputError(
            f"{GENERATOR} is not installed: `pip install 'keyspread[tpch]'`, or put it on PATH"
        )
    return found


def _generated(program: str, table: str, scale: float) -> Iterator[bytes]:
    """The lines of a table, in blocks of whole lines."""
    command = [program, "tbl", "-s", f"{scale:g}", "--tables", table, "--stdout", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=child_environment()) as process:
        assert process.stdout is not None
        try:
            yield from _whole_lines(process.stdout)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise RunError(f"{GENERATOR} failed with exit code {process.returncode}: see what it said")


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while block := file.read(_BLOCK_BYTES):
        head, newline, tail = block.rpartition(b"\n")
        if newline:
            yield rest + head + newline
            rest = tail
        else:
            rest += tail
    if rest:
        yield rest + b"\n"


def _by_ship_date(blocks: Iterator[bytes], scratch: Path) -> Iterator[bytes]:
    """Sort lines by their ship date; lines of a day stay in their order."""
    with ExitStack() as open_files:
        months: dict[str, BinaryIO] = {}
        for block in blocks:
            for part in _with_dates(block).partition_by("month"):
                month = part["month"][0]
                if month not in months:
                    months[month] = open_files.enter_context((scratch / month).open("wb"))
                months[month].write(_joined(part))
    for path in sorted(scratch.iterdir()):
        ordered = _with_dates(path.read_bytes()).sort("date", maintain_order=True)
        path.unlink()
        yield _joined(ordered)


def _joined(lines: pl.DataFrame) -> bytes:
    return ("\n".join(lines["line"]) + "\n").encode()


def _with_dates(block: bytes) -> pl.DataFrame:
    lines = pl.DataFrame({"line": block.decode().split("\n")[:-1]})
    date = pl.col("line").str.split("|").list.get(_SHIP_DATE)
    return lines.with_columns(date=date, month=date.str.head(7))
