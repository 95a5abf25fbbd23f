"""Sends an input into a topic, open loop: by its own schedule, never waiting for results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from partitioners.hashing import hash_keys_with_nulls
from pipelines.benchmark.content import (
    PartitionStretch,
    RoutedChunk,
    TopicContent,
    first_unsent,
    partition_sequences,
)
from pipelines.benchmark.latency import WindowSchedule
from pipelines.benchmark.pace import DelayHistogram, Pace
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.spread import Spread
from pipelines.benchmark.watermark_clock import NO_WATERMARK_MS
from pipelines.dead_letters import DeadLetters
from pipelines.punctuation import END_MS, encode_watermark
from pipelines.text_input import RejectedLine, read_chunks
from pipelines.workloads.base import Workload

# A paced replay hands over what is due at most this often, so that calls stay worth their cost.
TICK_SECONDS = 0.01
MAX_SLICE_RECORDS = 50_000


class Sender(Protocol):
    """The end of a producer that a replay speaks to; back-pressure and retries are its own."""

    def send(self, partition: int, keys: list[bytes | None], values: list[bytes]) -> None:
        """Hand over messages of one partition, in order; blocks while the queue is full."""

    def finish(self) -> int:
        """Wait for all acknowledgements, and give the number of messages delivered."""


class Stopped(Exception):  # noqa: N818  not an error: somebody asked for it
    """The replay was asked to stop."""


@dataclass(slots=True)
class ReplayReport:
    """What a replay did."""

    schedule: WindowSchedule
    spread: Spread
    delays: DelayHistogram
    records_per_partition: npt.NDArray[np.int64]
    produced: int = 0  # records of the input, watermark records left out
    skipped: int = 0  # of these, already in the topic
    delivered: int = 0  # of these, in the topic now
    late: int = 0  # of these, expected to miss a window
    ignored: int = 0
    dead: int = 0
    seconds: float = 0.0
    marks: list[tuple[int, int]] = field(default_factory=list)  # (records before it, watermark)

    @property
    def read(self) -> int:
        """Everything the input held."""
        return self.produced + self.ignored + self.dead

    @property
    def delivered_per_s(self) -> float:
        """Acknowledged records over wall time, of this attempt."""
        return (self.delivered - self.skipped) / self.seconds if self.seconds else 0.0


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
    ) -> None:
        self.config = config
        self.workload = workload
        self.content = content
        self.sender = sender
        self.dead_letters = dead_letters
        self.on_progress = on_progress
        self.report = ReplayReport(
            schedule=WindowSchedule(config.window_ms, config.slide_ms),
            spread=Spread(window_ms=config.window_ms, lateness_ms=config.lateness_ms),
            delays=DelayHistogram(),
            records_per_partition=np.zeros(config.partitions, np.int64),
        )
        self._still_to_skip = list(already_sent)
        self._pace = Pace(config.pace, config.pace_value)
        self._marks_delivered = 0
        self._stop = threading.Event()

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
        started = time.monotonic()
        try:
            self._send_input()
            self._send_end()
        finally:
            messages = self.sender.finish()
            self.report.delivered = self.report.skipped + messages - self._marks_delivered
            self.report.seconds = time.monotonic() - started
        return self.report

    def _send_input(self) -> None:
        bytes_before = 0
        parser = self.workload.parser()
        for path in self.config.inputs:
            consumed = 0

            def note_bytes(count: int) -> None:
                nonlocal consumed
                consumed = count

            for chunk in read_chunks(
                path, self._reject, encoding=self.config.encoding, on_bytes=note_bytes
            ):
                parsed = parser.parse(chunk)
                for line in parsed.rejected:
                    self._reject(line)
                self.report.ignored += parsed.ignored
                if len(parsed.table):
                    self._send_chunk(self.content.route(parsed.table))
                self.on_progress(bytes_before + consumed)
                self._check_stop()
            bytes_before += consumed

    def _reject(self, line: RejectedLine) -> None:
        self.dead_letters.add(line)
        self.report.dead += 1

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def _send_chunk(self, chunk: RoutedChunk) -> None:
        size = len(chunk.partitions)
        self._count(chunk)
        at = 0
        if any(self._still_to_skip):
            at = first_unsent(chunk, self._still_to_skip)
            self._send_slice(chunk, 0, at)
        due_ms = self._pace.due_ms(chunk.timestamps_ms)
        while at < size:
            at = self._send_due(chunk, at, due_ms)

    def _send_due(self, chunk: RoutedChunk, start: int, due_ms: npt.NDArray[np.float64]) -> int:
        """Send what is due from `start` on, waiting for it if need be; give where it ends."""
        self._pace.start_at(due_ms[start])
        while (wait_seconds := self._pace.seconds_until(due_ms[start])) > 0:
            self._stop.wait(max(wait_seconds, TICK_SECONDS))
            self._check_stop()
        self._check_stop()
        now_ms = self._pace.now_ms()
        stop = int(np.searchsorted(due_ms, now_ms, side="right"))
        stop = min(max(stop, start + 1), start + MAX_SLICE_RECORDS)
        wall_ms = self._pace.wall_ms(due_ms[start:stop])
        self.report.schedule.add(
            chunk.timestamps_ms[start:stop], chunk.watermarks.met_ms[start:stop], wall_ms
        )
        if self._pace.is_scheduled:
            self.report.delays.add(now_ms - due_ms[start:stop])
        self._send_slice(chunk, start, stop)
        return stop

    def _send_slice(self, chunk: RoutedChunk, start: int, stop: int) -> None:
        if start == stop:
            return
        for stretch in partition_sequences(chunk, start, stop, self.config.partitions):
            self._send_stretch(stretch)

    def _send_stretch(self, stretch: PartitionStretch) -> None:
        skipped = min(self._still_to_skip[stretch.partition], len(stretch))
        rest = stretch.without_first(skipped)
        self._still_to_skip[stretch.partition] -= skipped
        self.report.skipped += stretch.num_records - rest.num_records
        if rest.keys:
            self._marks_delivered += len(rest.mark_places)
            self.sender.send(rest.partition, rest.keys, rest.values)

    def _send_end(self) -> None:
        """Close all windows on every partition."""
        end = encode_watermark(END_MS)
        for partition in range(self.config.partitions):
            self._send_stretch(
                PartitionStretch(partition, [None], [end], np.zeros(1, dtype=np.int64))
            )

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
        slide_ms = self.config.slide_ms
        first_ends = (chunk.timestamps_ms // slide_ms + 1) * slide_ms
        report.late += int(((first_ends <= met_ms) & (met_ms > NO_WATERMARK_MS)).sum())
        hashes, is_null = hash_keys_with_nulls(chunk.keys)
        keyed = slice(None) if is_null is None else ~is_null
        report.spread.add(hashes[keyed], chunk.partitions[keyed], chunk.timestamps_ms[keyed])
