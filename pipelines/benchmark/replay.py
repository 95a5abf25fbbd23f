"""Sends an input into a topic, open loop: by its own schedule, never waiting for results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partitioners.hashing import hash_keys_with_nulls
from pipelines.benchmark.content import (
    Messages,
    RoutedChunk,
    TopicContent,
    not_in_topic,
    with_watermarks,
)
from pipelines.benchmark.hot_keys import KeyCounts
from pipelines.benchmark.latency import WindowSchedule
from pipelines.benchmark.load_over_time import LoadOverTime
from pipelines.benchmark.pace import DelayHistogram, Pace
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.spread import Spread
from pipelines.dead_letters import DeadLetters
from pipelines.punctuation import END_MS, NO_WATERMARK_MS, encode_watermark
from pipelines.text_input import LINES_PER_CHUNK, InputLines, RejectedLine
from pipelines.workloads.base import Workload

# A paced replay hands over what is due at most this often, so that calls stay worth their cost.
TICK_SECONDS = 0.01
MAX_SLICE_MESSAGES = 50_000


class Sender(Protocol):
    """The end of a producer that a replay speaks to; back-pressure and retries are its own."""

    def send(self, keys: pa.Array, values: pa.Array, partitions: npt.NDArray[np.int32]) -> None:
        """Hand over messages, in order; blocks while the queue is full."""

    def finish(self, *, stopped: bool) -> int:
        """Wait for the acknowledgements, briefly if stopped; give the number delivered."""


class Stopped(Exception):  # noqa: N818  not an error: somebody asked for it
    """The replay was asked to stop."""


@dataclass(slots=True)
class ReplayReport:
    """What a replay did."""

    schedule: WindowSchedule
    spread: Spread
    keys: KeyCounts
    load: LoadOverTime
    delays: DelayHistogram
    records_per_partition: npt.NDArray[np.int64]
    produced: int = 0  # records of the input, watermark records left out
    skipped: int = 0  # of these, already in the topic
    delivered: int = 0  # of these, in the topic now
    late: int = 0  # of these, expected to miss a window
    ignored: int = 0
    dead: int = 0
    first_send_s: float | None = None  # after `go`, by `time.monotonic`
    seconds: float = 0.0  # from the first send to the last acknowledgement
    marks: list[tuple[int, int]] = field(default_factory=list)  # (records before it, watermark)

    @property
    def read(self) -> int:
        """Everything the input held."""
        return self.produced + self.ignored + self.dead

    @property
    def delivered_per_s(self) -> float:
        """Acknowledged records over wall time, of this attempt."""
        return (self.delivered - self.skipped) / self.seconds if self.seconds else 0.0

    def seconds_until(self, moment_s: float) -> float:
        """Seconds from the first send to a moment of `time.monotonic`; 0: nothing was sent."""
        return 0.0 if self.first_send_s is None else moment_s - self.first_send_s


class Replay:
    """One pass over the input of a run.

    Args:
        config: The run.
        workload: Its parser makes the records.
        content: Routes them.
        sender: Takes them.
        dead_letters: Takes lines that are no records.
        already_sent: For each partition, how many messages an earlier attempt delivered.
        on_progress: Called now and then with the bytes of input read so far.
        lines_per_chunk: Lines parsed and routed at a time.
        await_go: Send no record before `go` is called.
    """

    def __init__(
        self,
        config: RunConfig,
        workload: Workload,
        content: TopicContent,
        sender: Sender,
        dead_letters: DeadLetters,
        already_sent: Sequence[int],
        on_progress: Callable[[int], None] = lambda _bytes: None,
        lines_per_chunk: int = LINES_PER_CHUNK,
        await_go: bool = False,
    ) -> None:
        self.config = config
        self.workload = workload
        self.content = content
        self.sender = sender
        self.dead_letters = dead_letters
        self._lines = InputLines(
            config.inputs,
            config.encoding,
            self._reject,
            on_bytes=on_progress,
            lines_per_chunk=lines_per_chunk,
        )
        self.report = ReplayReport(
            schedule=WindowSchedule(config.window_ms, config.slide_ms),
            spread=Spread(window_ms=config.window_ms, lateness_ms=config.lateness_ms),
            keys=KeyCounts(),
            load=LoadOverTime(config.partitions),
            delays=DelayHistogram(),
            records_per_partition=np.zeros(config.partitions, np.int64),
        )
        self._in_topic = np.array(already_sent, dtype=np.int64)
        self._pace = Pace(config.pace, config.pace_value)
        self._marks_sent = 0
        self._stop = threading.Event()
        self._go = threading.Event()
        if not await_go:
            self._go.set()

    def go(self) -> None:
        """Let the records follow: whoever reads them is ready."""
        self._go.set()

    def stop(self) -> None:
        """Ask the replay to end; it raises `Stopped` soon."""
        self._stop.set()

    def run(self) -> ReplayReport:
        """Send everything, and wait until it is delivered.

        Raises:
            Stopped: `stop` was called; what was handed over has been delivered.
            InputError: The input ended in mid-stream.
            RunError: The broker did not take everything.
        """
        finished = False
        try:
            # First a watermark that promises nothing: a query can run its first batch, the slowest
            # by far, before the schedule of the records begins.
            self._send_marks(NO_WATERMARK_MS)
            while not self._go.wait(TICK_SECONDS):
                self._check_stop()
            self._send_input()
            # At the end one that closes all windows.
            self._send_marks(END_MS)
            finished = True
        finally:
            messages = self.sender.finish(stopped=not finished)
            self.report.delivered = self.report.skipped + messages - self._marks_sent
            self.report.seconds = self.report.seconds_until(time.monotonic())
        return self.report

    def _send_input(self) -> None:
        parser = self.workload.parser()
        for chunk in self._lines:
            parsed = parser.parse(chunk)
            for line in parsed.rejected:
                self._reject(self._lines.as_in_file(line))
            self.report.ignored += parsed.ignored
            if len(parsed.table):
                self._send_chunk(self.content.route(parsed.table))
            self._check_stop()

    def _reject(self, line: RejectedLine) -> None:
        self.dead_letters.add(line)
        self.report.dead += 1

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def _send_chunk(self, chunk: RoutedChunk) -> None:
        self._count(chunk)
        messages = with_watermarks(chunk, self.config.partitions)
        if self._in_topic.any():
            missing = not_in_topic(messages, self._in_topic)
            self.report.skipped += int((~missing & ~messages.is_mark).sum())
            messages = messages.take(missing)
        due_ms = self._pace.due_ms(chunk.timestamps_ms)[messages.places]
        at = 0
        while at < len(messages):
            stop = self._wait_for_due(due_ms, at)
            part = messages.take(slice(at, stop))
            self._note_schedule(chunk, part, due_ms[at:stop])
            self._send(part)
            at = stop

    def _wait_for_due(self, due_ms: npt.NDArray[np.float64], start: int) -> int:
        """Wait until the message at `start` is due; give where those that are due end."""
        self._pace.start_at(due_ms[start])
        while (wait_seconds := self._pace.seconds_until(due_ms[start])) > 0:
            self._stop.wait(max(wait_seconds, TICK_SECONDS))
            self._check_stop()
        self._check_stop()
        due = int(np.searchsorted(due_ms, self._pace.now_ms(), side="right"))
        if not self._pace.is_scheduled:
            due = len(due_ms)
        return min(max(due, start + 1), start + MAX_SLICE_MESSAGES)

    def _note_schedule(
        self, chunk: RoutedChunk, part: Messages, due_ms: npt.NDArray[np.float64]
    ) -> None:
        records = ~part.is_mark
        places, due_ms = part.places[records], due_ms[records]
        if not len(places):
            return
        self.report.schedule.add(
            chunk.timestamps_ms[places],
            chunk.watermarks.met_ms[places],
            self._pace.wall_ms(due_ms),
        )
        if self._pace.is_scheduled:
            self.report.delays.add(self._pace.now_ms() - due_ms)

    def _send(self, messages: Messages) -> None:
        if self.report.first_send_s is None:
            self.report.first_send_s = time.monotonic()
        self._marks_sent += int(messages.is_mark.sum())
        self.sender.send(messages.keys, messages.values, messages.partitions)

    def _send_marks(self, watermark_ms: int) -> None:
        """Send a watermark to every partition that does not have it from an earlier attempt."""
        targets = np.flatnonzero(self._in_topic == 0).astype(np.int32)
        self._in_topic[self._in_topic > 0] -= 1
        if not len(targets):
            return
        marks = pa.array([encode_watermark(watermark_ms)] * len(targets), pa.binary())
        self._marks_sent += len(targets)
        self.sender.send(pa.nulls(len(targets), pa.binary()), marks, targets)

    def _count(self, chunk: RoutedChunk) -> None:
        report = self.report
        positions, marks_ms, met_ms = chunk.watermarks
        report.marks += zip(
            (positions + report.produced + 1).tolist(), marks_ms.tolist(), strict=True
        )
        report.produced += len(chunk.partitions)
        report.records_per_partition += np.bincount(
            chunk.partitions, minlength=self.config.partitions
        )
        report.load.add(chunk.partitions, chunk.timestamps_ms)
        # Late is what misses a window of any kind, and those of the least slide end first.
        first_ends = np.stack(
            [(chunk.timestamps_ms // slide + 1) * slide for _, slide in self.config.windows]
        ).min(axis=0)
        report.late += int(((first_ends <= met_ms) & (met_ms > NO_WATERMARK_MS)).sum())
        hashes, is_null = hash_keys_with_nulls(chunk.keys)
        keys, partitions, times_ms = chunk.keys, chunk.partitions, chunk.timestamps_ms
        if is_null is not None:
            keys, hashes = keys.drop_null(), hashes[~is_null]
            partitions, times_ms = partitions[~is_null], times_ms[~is_null]
        report.spread.add(hashes, partitions, times_ms)
        report.keys.add(keys, hashes, partitions)
