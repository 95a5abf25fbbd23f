"""Says whether a finished run is exact: every count, and every window against the oracle."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psutil

from partitioners.errors import RunError
from pipelines.benchmark.oracle import SHOWN_DIFFERENCES, Oracle
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.replay import ReplayReport
from pipelines.panes import duration
from pipelines.workloads.base import Workload

if TYPE_CHECKING:
    from pipelines.summary import QuerySummary

# The oracle runs beside Spark and the broker; what it cannot hold in its share of the memory goes
# to disk.
MEMORY_SHARE = 4
LEAST_MEMORY_BYTES = 2 << 30
SPILL_PREFIX = ".oracle-"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the oracle says.

    Attributes:
        exact: Whether every window and every row is as it should be, and all counts agree.
        windows: Windows compared.
        differences: What is not, in words; the first few.
        last_top: Start of the last window (of the first kind), and its top: key columns and
            values by name.
    """

    exact: bool
    windows: int
    differences: list[str]
    last_top: tuple[int, list[dict[str, Any]]] | None


class Answers:
    """The oracle's answers, kept for runs that have the same input, windows and watermarks.

    What a run expects does not depend on partitioner, partitions, sources or shards.

    Args:
        folder: Where what does not fit into memory goes meanwhile; nothing of it stays. Left out:
            the system's folder for such files.
        memory_bytes: What the oracle may hold in memory; left out: a quarter of the machine's, and
            at least 2 GiB.
    """

    def __init__(self, folder: Path | None = None, memory_bytes: int | None = None) -> None:
        self.folder = folder or Path(tempfile.gettempdir())
        self.memory_bytes = memory_bytes or memory_share()
        self._spilled: tempfile.TemporaryDirectory[str] | None = None
        self._kept: tuple[object, Oracle, int] | None = None

    def oracle(self, config: RunConfig, workload: Workload, marks: Sequence[Any]) -> Any:
        """The oracle with its answers ready, and the number of records it read.

        The answers of the last question asked are kept; another question closes them.
        """
        question = (
            config.workload,
            sorted(config.workload_options.items()),
            config.inputs,
            config.encoding,
            (config.window_ms, config.slide_ms, config.emit, config.top),
            list(marks),
        )
        if self._kept is not None and self._kept[0] == question:
            return self._kept[1:]
        self.close()
        self._spilled = tempfile.TemporaryDirectory(prefix=SPILL_PREFIX, dir=self.folder)
        connection = duckdb.connect(
            config={
                "memory_limit": f"{self.memory_bytes}B",
                "temp_directory": self._spilled.name,
            }
        )
        try:
            oracle = Oracle(connection, config, workload)
            oracle.read_input(marks)
            records = oracle.num_records()
            oracle.fill_expected()
        except BaseException:
            connection.close()
            self.close()
            raise
        self._kept = (question, oracle, records)
        return oracle, records

    def close(self) -> None:
        """Let go of what is kept."""
        if self._kept is not None:
            self._kept[1].connection.close()
            self._kept = None
        if self._spilled is not None:
            self._spilled.cleanup()
            self._spilled = None


def memory_share() -> int:
    """Bytes of memory an oracle may fill on this machine."""
    return max(LEAST_MEMORY_BYTES, psutil.virtual_memory().total // MEMORY_SHARE)


def verify(
    config: RunConfig,
    workload: Workload,
    results_dir: Path,
    report: ReplayReport,
    summary: QuerySummary,
    answers: Answers | None = None,
) -> Comparison:
    """Compare the results of a finished run with the oracle.

    Args:
        config: The run.
        workload: Its oracle is asked.
        results_dir: The Parquet files.
        report: What was sent.
        summary: What the query counted.
        answers: Where the oracle's answers are kept for the next run.

    Raises:
        RunError: Neither memory nor disk hold what the oracle needs.
    """
    differences = _count_differences(report, summary)
    if answers is None:
        # A run that was killed while it was compared left its own.
        for left in results_dir.parent.glob(f"{SPILL_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)
    kept = answers or Answers(results_dir.parent)
    sizes_ms = [size_ms for size_ms, _ in config.windows]
    windows, tops = 0, []
    try:
        for each in config.of_each_window():
            oracle, num_records = kept.oracle(each, workload, report.marks)
            if num_records != report.produced:
                differences.append(
                    f"the oracle reads {num_records:,} records, not {report.produced:,}"
                )
            oracle.read_results(results_dir, sizes_ms)
            found = oracle.differences()
            if len(sizes_ms) > 1:
                found = [f"windows of {duration(each.window_ms)}: {text}" for text in found]
            differences += found
            windows += oracle.num_windows()
            tops.append(oracle.last_top())
        return Comparison(
            exact=not differences,
            windows=windows,
            differences=differences[:SHOWN_DIFFERENCES],
            last_top=tops[0],
        )
    except duckdb.OutOfMemoryException as error:
        raise RunError(
            f"the oracle of {config.workload} fits neither into {kept.memory_bytes >> 20:,} MiB of "
            f"memory nor onto the disk of {kept.folder}: free some space, or compare less input"
        ) from error
    finally:
        if answers is None:
            kept.close()


def _count_differences(report: ReplayReport, summary: QuerySummary) -> list[str]:
    per_partition = [
        summary.records_per_partition.get(partition, 0)
        for partition in range(len(report.records_per_partition))
    ]
    pairs = (
        ("delivered", report.delivered, "produced", report.produced),
        ("on time + late", summary.on_time + summary.late, "produced", report.produced),
        ("late", summary.late, "late by the replay's watermarks", report.late),
        (
            "records read per partition",
            per_partition,
            "records sent",
            report.records_per_partition.tolist(),
        ),
        ("windows written", summary.windows, "windows the sink timed", len(summary.emitted_ms)),
        ("records of another workload", summary.dead, "none", 0),
    )
    return [
        f"{name} {value} is not {other} {wanted}"
        for name, value, other, wanted in pairs
        if value != wanted
    ]
