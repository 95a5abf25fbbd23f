"""What a paper's experiments are made of: a lab to run cells in, and tables to put them in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from partitioners.simulation import Setting, StreamSource, Sweeper
from partitioners.stream_names import parse_named, parse_stream

Task = TypeVar("Task")
Result = TypeVar("Result")

LEAST_RECORDS = 5_000
LEAST_KEYS = 2_000
SEED = 1


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper: published beside ours.

    Attributes:
        title: Its number and subject, such as "Table II, average imbalance".
        data: What it ran on; says so where data is generated.
        columns: Heads of the table.
        rows: Cells as text.
        published: What the paper reports, where it is not in the rows.
        findings: What ours shows, and why the two differ where they do.
    """

    title: str
    data: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    published: str = ""
    findings: Sequence[str] = field(default_factory=tuple)


class Lab:
    """Runs cells side by side for the experiments of a paper.

    Args:
        sweeper: Processes to run them in.
        scale: Share of the records of the full experiments.
        on_step: Told what is being run, how many cells are done, and of how many.
    """

    def __init__(
        self,
        sweeper: Sweeper,
        *,
        scale: float = 1.0,
        on_step: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
    ) -> None:
        self.scale = scale
        self._sweeper = sweeper
        self._on_step = on_step
        self.what = ""

    def records(self, count: int) -> int:
        """Scale a number of records."""
        return max(LEAST_RECORDS, min(count, round(count * self.scale)))

    def milliseconds(self, count: int) -> int:
        """Scale a time of the stream, so that there are as many windows whatever the scale."""
        return max(10, round(count * self.scale) // 10 * 10)

    def stream(self, text: str, num_records: int, seed: int = SEED) -> StreamSource:
        """Name a generated stream of scaled length, and of as many keys to a record."""
        scaled = re.sub(
            r"(?<=num_keys=)\d+",
            lambda found: str(
                min(int(found[0]), max(LEAST_KEYS, round(int(found[0]) * self.scale)))
            ),
            text,
        )
        return parse_stream(scaled, self.records(num_records), seed)

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run a function of a module on many tasks, side by side."""
        done = 0
        self._on_step(self.what, 0, len(tasks))

        def count(_result: Result) -> None:
            nonlocal done
            done += 1
            self._on_step(self.what, done, len(tasks))

        return self._sweeper.run(function, tasks, count)


@dataclass(frozen=True)
class Paper:
    """A paper and its experiments.

    Attributes:
        name: On the command line.
        citation: Authors, title, venue.
        summary: What came out, in a few sentences.
        experiments: Each makes one table.
        not_run: Which figures are left out, and why.
    """

    name: str
    citation: str
    summary: str
    experiments: Sequence[Callable[[Lab], Experiment]]
    not_run: str = ""


def setting(
    partitioner: str, stream: StreamSource, num_partitions: int, **others: object
) -> Setting:
    """Write a setting shortly.

    Args:
        partitioner: Name and options as text.
        stream: The stream.
        num_partitions: Workers.
        others: Further fields of ``Setting``.
    """
    return Setting(
        partitioner=parse_named(partitioner),
        stream=stream,
        num_partitions=num_partitions,
        **others,  # type: ignore[arg-type]
    )


def power(value: float) -> str:
    """Write a small share or a large count with two digits, as the papers' logarithmic plots do.

    Example:
        >>> power(0.0268), power(0.0), power(590_000.0), power(2.74)
        ('2.7e-2', '0', '5.9e5', '2.7')
    """
    if value == 0:
        return "0"
    if 0.1 <= abs(value) < 1_000:
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"
