"""The official files of DEBS 2015 and of the Google cluster trace, checked and packed in parts.

Lines stay as they are published, bad ones too; the manifest says how many there are, whether event
times go back and how far, how many keys there are, and the share of the hottest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from partitioners.errors import InputError
from pipelines.datasets.folder import LINES_PER_PART, DataFolder
from pipelines.text_input import AUTO, InputLines, LineChunk, RejectedLine, check_input
from pipelines.workloads import create_workload
from pipelines.workloads.base import Parser

# By which workload lines are checked, and how the files of a folder are called.
KINDS = {"debs": ("debs-fare", "*.csv*"), "gcm": ("gcm-q2", "part-*.csv*")}
BAD_IN_MANIFEST = 5


def find_files(kind: str, source: Path) -> list[Path]:
    """The files of a source, in order of name.

    Args:
        kind: `debs` or `gcm`.
        source: A file, or a folder of them.

    Raises:
        InputError: There are none.
    """
    if not source.is_dir():
        return [source]
    files = sorted(source.glob(KINDS[kind][1])) or sorted(source.glob("*.csv*"))
    if not files:
        raise InputError(f"no CSV files in {source}: name the folder that holds them with --from")
    return files


def prepare_official(
    kind: str, source: Path, out: Path, on_bytes: Callable[[int], None] = lambda _bytes: None
) -> DataFolder:
    """Check and pack official files.

    Args:
        kind: `debs` or `gcm`.
        source: A file, or a folder of them.
        out: The folder for the parts.
        on_bytes: Called with the bytes of input read so far.

    Raises:
        InputError: A file does not read, or holds no record of that kind.
    """
    paths = find_files(kind, source)
    for path in paths:
        check_input(path)
    sizes = {path.name: path.stat().st_size for path in paths}
    folder = DataFolder(out, {"data": kind, "from": sizes})
    parser = create_workload(KINDS[kind][0]).parser()
    undecodable: list[RejectedLine] = []
    names = []
    lines = InputLines(paths, AUTO, undecodable.append, on_bytes)
    for number, part in enumerate(_parts(lines)):
        name = f"part-{number:05d}.csv.gz"
        names.append(name)
        if folder.has(name):
            for _ in part:
                pass
            continue
        part_check = PartCheck(parser)
        folder.write(name, map(part_check.take, part), about=part_check.about)
    if undecodable:
        first = undecodable[0]
        raise InputError(
            f"line {first.line_number} of {first.path} {first.reason}: fetch the file again"
        )
    if not any(folder.files[name]["records"] for name in names):
        raise InputError(f"no record of {kind} in {source}: give its official files with --from")
    folder.finish(names)
    return folder


class PartCheck:
    """What is known of the lines of a part."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._records = self._ignored = self._rejected = self._back_ms = 0
        self._latest: int | None = None
        self._bad: list[str] = []
        self._keys: dict[bytes | None, int] = {}

    def take(self, chunk: LineChunk) -> bytes:
        """Check lines, and give them back as bytes."""
        parsed = self._parser.parse(chunk)
        self._records += len(parsed.table)
        self._ignored += parsed.ignored
        self._rejected += len(parsed.rejected)
        room = BAD_IN_MANIFEST - len(self._bad)
        self._bad += [f"line {bad.line_number}: {bad.reason}" for bad in parsed.rejected[:room]]
        times = parsed.table["timestamp_ms"].to_numpy()
        if len(times):
            before = times[0] if self._latest is None else self._latest
            latest = np.maximum.accumulate(np.concatenate([np.array([before]), times]))
            self._back_ms = max(self._back_ms, int((latest[1:] - times).max()))
            self._latest = int(latest[-1])
        for counted in parsed.table["key"].value_counts().to_pylist():
            key = counted["values"]
            self._keys[key] = self._keys.get(key, 0) + counted["counts"]
        return "".join(f"{line}\n" for line in chunk.lines).encode()

    def about(self) -> dict[str, Any]:
        """For the manifest."""
        hottest = max(self._keys.values(), default=0)
        return {
            "records": self._records,
            "ignored": self._ignored,
            "bad": self._rejected,
            "first_bad": self._bad,
            "largest_step_back_ms": self._back_ms,
            "keys": len(self._keys),
            "top_share": round(hottest / self._records, 6) if self._records else 0.0,
        }


def _parts(chunks: Iterator[LineChunk] | InputLines) -> Iterator[Iterator[LineChunk]]:
    """Cut a stream of chunks into parts of `LINES_PER_PART` lines; each is read before the next."""
    stream = iter(chunks)
    following = next(stream, None)

    def part() -> Iterator[LineChunk]:
        nonlocal following
        lines = 0
        while following is not None and lines < LINES_PER_PART:
            lines += len(following.lines)
            yield following
            following = next(stream, None)

    while following is not None:
        yield part()
