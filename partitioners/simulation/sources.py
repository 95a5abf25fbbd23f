"""Routes a stream as several producers do, each with a partitioner of its own.

Records are dealt to the sources in turn, unless owners are given. Partitioners that know a batch
before they decide get one: ``prompt`` the micro-batch of each slide, ``off_greedy`` all records of
its source. Several sources of ``dalton`` learn together through a channel in memory, under a clock
that is event time, so that a run repeats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from partitioners.base import Partitioner
from partitioners.config import make_config
from partitioners.dalton import (
    CooperativeConfig,
    CooperativeDalton,
    GlobalTable,
    MemoryChannel,
    QTableReducer,
    ReducerConfig,
)
from partitioners.errors import InputError
from partitioners.prompt import Prompt
from partitioners.registry import PARTITIONERS, create
from partitioners.streams import Stream

Int64s = npt.NDArray[np.int64]

ALONE = "alone"
"""Option of ``dalton`` with several sources: true leaves each agent to itself."""


@dataclass(frozen=True)
class Routed:
    """Where the records of a stream went.

    Attributes:
        partitions: ``int32[n]``.
        state_bytes: Of all sources' partitioners together, after the stream.
        sync_intervals_ms: Interval of each table that cooperating agents got, in order.
    """

    partitions: npt.NDArray[np.int32]
    state_bytes: int
    sync_intervals_ms: tuple[int, ...] = ()


def with_windows(
    name: str, options: Mapping[str, Any], window_ms: int, slide_ms: int | None
) -> dict[str, Any]:
    """Add window and slide to the options of a partitioner that counts by windows, unless given.

    Args:
        name: Of the partitioner.
        options: Its options.
        window_ms: Window of the query.
        slide_ms: Its slide; None: the window.

    Returns:
        The options to make it with.
    """
    made = dict(options)
    kind = PARTITIONERS.get(name)
    if kind is not None and kind.traits.uses_time:
        known = {field.name for field in fields(kind.config_type)}
        if "window_ms" in known:
            made.setdefault("window_ms", window_ms)
        if "slide_ms" in known:
            made.setdefault("slide_ms", slide_ms or window_ms)
    return made


def check_sources(
    name: str,
    num_partitions: int,
    num_sources: int,
    options: Mapping[str, Any],
    window_ms: int,
    slide_ms: int | None,
) -> None:
    """Refuse what ``route_by_sources`` would refuse, before any work.

    Raises:
        InputError: An unknown partitioner or option, or a value out of range.
    """
    if not 1 <= num_sources <= 10_000:
        raise InputError(f"sources must be from 1 to 10,000, not {num_sources}")
    made = with_windows(name, options, window_ms, slide_ms)
    if name == "dalton":
        agents, group = _split_dalton_options(made)
        make_config(CooperativeConfig if num_sources > 1 else _alone_config(), name, agents)
        _reducer_config(agents, group)
        create("key_hash", num_partitions)
    else:
        create(name, num_partitions, **made)


def route_by_sources(
    name: str,
    num_partitions: int,
    stream: Stream,
    *,
    num_sources: int = 1,
    window_ms: int = 60_000,
    slide_ms: int | None = None,
    options: Mapping[str, Any] | None = None,
    owners: Int64s | None = None,
) -> Routed:
    """Route a stream.

    Args:
        name: Of the partitioner.
        num_partitions: Partitions there are.
        stream: The records.
        num_sources: Producers, each with a partitioner of its own.
        window_ms: For partitioners with windows.
        slide_ms: For those with a slide, and the micro-batch of ``prompt``; None: the window.
        options: Of the partitioner. With several sources of ``dalton`` also ``alone`` (they do not
            meet), ``reducer_ms`` (how long the reducer needs per round, 0), ``min_interval_ms``
            and ``max_interval_ms`` of the reducer.
        owners: ``int64[n]``, source of each record; None: in turn.

    Returns:
        The partitions.

    Raises:
        InputError: See ``check_sources``.

    Example:
        >>> from partitioners.streams import zipf
        >>> routed = route_by_sources("pkg", 4, zipf(10_000), num_sources=3)
        >>> routed.partitions.max()
        np.int32(3)
    """
    given = with_windows(name, options or {}, window_ms, slide_ms)
    dealt = np.arange(len(stream.ids)) % num_sources if owners is None else owners
    if name == "dalton":
        agents, group = _split_dalton_options(given)
        if num_sources > 1 and not group.get(ALONE):
            return _route_together(num_partitions, stream, num_sources, dealt, agents, group)
        given = agents
    out = np.empty(len(stream.ids), np.int32)
    state_bytes = 0
    for source in range(num_sources):
        partitioner = create(name, num_partitions, **given)
        hashes = stream.hashes(partitioner.hash_function)
        rows = slice(None) if num_sources == 1 else np.flatnonzero(dealt == source)
        times = np.ascontiguousarray(stream.timestamps_ms[rows])
        part = _route_one_source(
            partitioner, np.ascontiguousarray(hashes[rows]), times, slide_ms or window_ms
        )
        out[rows] = part
        state_bytes += partitioner.state_bytes
    return Routed(out, state_bytes)


def _route_one_source(
    partitioner: Partitioner, hashes: npt.NDArray[np.uint64], times: Int64s, batch_ms: int
) -> npt.NDArray[np.int32]:
    out = np.empty(len(hashes), np.int32)
    if isinstance(partitioner, Prompt):
        batches = times // batch_ms
        order = np.argsort(batches, kind="stable")
        bounds = np.flatnonzero(np.diff(batches[order])) + 1
        for rows in np.split(order, bounds):
            part = np.empty(len(rows), np.int32)
            partitioner.route_micro_batch(hashes[rows], part, None, times[rows])
            out[rows] = part
        return out
    if partitioner.traits.needs_batch and hasattr(partitioner, "fit"):
        partitioner.fit(hashes)
    partitioner.route(hashes, times, out)
    return out


_GROUP_OPTIONS = (ALONE, "reducer_ms", "min_interval_ms", "max_interval_ms")


def _alone_config() -> type[Any]:
    return PARTITIONERS["dalton"].config_type


def _split_dalton_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    agents = {name: value for name, value in options.items() if name not in _GROUP_OPTIONS}
    return agents, {name: options[name] for name in _GROUP_OPTIONS if name in options}


def _reducer_config(agents: Mapping[str, Any], group: Mapping[str, Any]) -> ReducerConfig:
    interval_ms = agents.get("interval_ms") or agents["slide_ms"]
    return ReducerConfig(
        interval_ms=interval_ms,
        min_interval_ms=group.get("min_interval_ms"),
        max_interval_ms=group.get("max_interval_ms", max(600_000, interval_ms)),
        lease_ms=max(30_000, 4 * interval_ms),
        wait_ms=max(1_000, interval_ms // 2),
    )


class _Reducer:
    """The Q-table reducer under event time; it takes ``reducer_ms`` for every round."""

    def __init__(
        self, num_partitions: int, config: ReducerConfig, channel: MemoryChannel, round_ms: int
    ) -> None:
        self.now_ms = 0
        self.intervals_ms: list[int] = []
        self._channel = channel
        self._round_ms = round_ms
        self._ready: deque[tuple[int, GlobalTable]] = deque()
        self._last_ms: int | None = None
        self._reducer = QTableReducer(num_partitions, config, clock=lambda: self.now_ms)

    def work(self) -> None:
        while self._ready and self._ready[0][0] <= self.now_ms:
            table = self._ready.popleft()[1]
            self.intervals_ms.append(table.interval_ms)
            self._channel.broadcast(table)
        if self._ready:
            return  # busy with a round; messages wait in the channel
        for message in self._channel.receive(0.0):
            self._reducer.receive(message)
        table_or_none = self._reducer.close_if_due()
        if table_or_none is None:
            return
        since = self.now_ms - (self.now_ms if self._last_ms is None else self._last_ms)
        self._last_ms = self.now_ms
        self._reducer.note_time(busy_ms=self._round_ms, idle_ms=max(since - self._round_ms, 0))
        self._ready.append((self.now_ms + self._round_ms, table_or_none))


def _route_together(
    num_partitions: int,
    stream: Stream,
    num_sources: int,
    dealt: Int64s,
    options: Mapping[str, Any],
    group: Mapping[str, Any],
) -> Routed:
    config = make_config(CooperativeConfig, "dalton", dict(options))
    assert isinstance(config, CooperativeConfig)
    channel = MemoryChannel()
    reducer = _Reducer(
        num_partitions,
        _reducer_config(options, group),
        channel,
        int(group.get("reducer_ms", 0)),
    )
    times = stream.timestamps_ms
    agents = [
        CooperativeDalton(
            num_partitions,
            config,
            channel=channel.agent(),
            agent=f"source {source:05}",
            clock=lambda: reducer.now_ms,
        )
        for source in range(num_sources)
    ]
    # Twice per interval the reducer looks: a table comes half an interval after the messages.
    step_ms = max(1, (config.interval_ms or config.slide_ms) // 2)
    steps = times // step_ms
    bounds = np.append(np.flatnonzero(np.diff(steps, prepend=steps[:1] - 1)), len(steps))
    out = np.empty(len(times), np.int32)
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        reducer.now_ms = max(reducer.now_ms, int(times[start]))
        owners = dealt[start:end]
        for source, agent in enumerate(agents):
            rows = start + np.flatnonzero(owners == source)
            part = np.empty(len(rows), np.int32)
            agent.route(stream.key_hashes[rows], np.ascontiguousarray(times[rows]), part)
            out[rows] = part
        reducer.work()
    return Routed(
        out,
        sum(agent.state_bytes for agent in agents),
        tuple(reducer.intervals_ms),
    )
