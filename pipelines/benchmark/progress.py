"""Progress bars of a run, on stderr, where a terminal is there to see them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines.key_names import percent

TELL_SECONDS = 30.0


class RunProgress:
    """Shows how far a run is; the methods are called from its threads.

    Args:
        bars: Where the bars are drawn.
        title: What the run is.
        total_bytes: Size of its input.
        shown: Whether to say anything where bars cannot be drawn.
    """

    def __init__(
        self, bars: Progress, title: str, total_bytes: int, *, shown: bool = False
    ) -> None:
        self._bars = bars
        # Where no bars are drawn a log is kept, and this step may take as long as the run.
        self._told = shown and not bars.console.is_terminal
        self._tell_next_s = time.monotonic() + TELL_SECONDS
        self._title, self._total_bytes = title, total_bytes
        self._sent_bytes = self._num_computed = 0
        self._sent = bars.add_task(f"{title}: input", total=total_bytes, unit="bytes")
        self._windows = "0 windows"
        self._computed = bars.add_task(f"{title}: results", total=None, unit="")

    def sent(self, num_bytes: int) -> None:
        """So many bytes of the input were read and sent."""
        self._bars.update(self._sent, completed=num_bytes)
        self._sent_bytes = num_bytes
        self._tell_now_and_then()

    def expect(self, num_records: int) -> None:
        """So many records will be in the results, it is now known."""
        self._bars.update(self._computed, total=num_records)

    def computed(self, num_records: int, num_windows: int) -> None:
        """So many records are in the results so far."""
        self._windows = f"{num_windows:,} windows"
        self._bars.update(self._computed, completed=num_records, unit=self._windows)
        self._num_computed = num_records
        self._tell_now_and_then()

    def behind(self, lag: Mapping[int, int]) -> None:
        """So many records of each topic partition wait for their batch."""
        if total := sum(lag.values()):
            partition = max(lag, key=lag.__getitem__)
            text = f"{self._windows}, lag {total:,} (partition {partition}: {lag[partition]:,})"
            self._bars.update(self._computed, unit=text)

    def _tell_now_and_then(self) -> None:
        """Where a log is kept, a line of it every half minute."""
        if not self._told or time.monotonic() < self._tell_next_s:
            return
        self._tell_next_s = time.monotonic() + TELL_SECONDS
        if not (self._sent_bytes or self._num_computed):
            text = "nothing is sent yet: that begins when Spark is done with its first, empty batch"
        else:
            sent = percent(self._sent_bytes / max(self._total_bytes, 1))
            text = (
                f"{sent} of the input sent; {self._num_computed:,} records, {self._windows} in "
                "the results"
            )
        self._bars.console.print(
            f"{self._title}: {text}",
            style="dim",
            highlight=False,
            soft_wrap=True,
        )

    def verifying(self) -> None:
        """The results are complete; the oracle is at work."""
        self._bars.update(self._computed, unit="comparing with DuckDB")
        if self._told:
            self._bars.console.print("comparing with DuckDB ...", style="dim", highlight=False)


def input_bytes(paths: Sequence[str]) -> int:
    """Give the size of an input, packed as it is."""
    return sum(Path(path).stat().st_size for path in paths)


@contextmanager
def progress_bars(console: Console, *, shown: bool) -> Iterator[Progress]:
    """Draw bars while a block runs.

    Args:
        console: Where to.
        shown: Whether to draw at all; a console that is no terminal shows none either way.
    """
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
        console=console,
        disable=not shown or not console.is_terminal,
    )
    with bars:
        yield bars
