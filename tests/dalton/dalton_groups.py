"""Runs several agents on one stream, step by step, with every fault a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from partitioners.dalton import (
    AgentChannel,
    CooperativeConfig,
    CooperativeDalton,
    GlobalTable,
    LeaveMessage,
    MemoryChannel,
    QTableReducer,
    ReducerConfig,
    SyncMessage,
)


class Group:
    """Agents and a reducer under one clock that the test sets."""

    def __init__(
        self,
        num_partitions: int,
        num_agents: int,
        *,
        slide_ms: int = 1_000,
        reducer: ReducerConfig | None = None,
        wrap: Callable[[AgentChannel], AgentChannel] = lambda channel: channel,
    ) -> None:
        self.now_ms = 0
        self.num_partitions = num_partitions
        self.config = CooperativeConfig(slide_ms=slide_ms)
        self.reducer_config = reducer or ReducerConfig(interval_ms=slide_ms)
        self.channel = MemoryChannel()
        self.wrap = wrap
        self.reducer: QTableReducer | None = self.new_reducer(0)
        self.agents = [self.new_agent(f"agent {number}") for number in range(num_agents)]
        self.tables: list[GlobalTable] = []

    def new_reducer(self, epoch_ms: int) -> QTableReducer:
        return QTableReducer(
            self.num_partitions, self.reducer_config, clock=lambda: self.now_ms, epoch_ms=epoch_ms
        )

    def new_agent(self, name: str) -> CooperativeDalton:
        return CooperativeDalton(
            self.num_partitions,
            self.config,
            channel=self.wrap(self.channel.agent()),
            agent=name,
            clock=lambda: self.now_ms,
        )

    def reduce(self) -> None:
        """Let the reducer take in what came, and answer if it is time."""
        if self.reducer is None:
            return
        for message in self.channel.receive(0.0):
            self.reducer.receive(message)
        table = self.reducer.close_if_due()
        if table is not None:
            self.tables.append(table)
            self.channel.broadcast(table)

    def run(
        self,
        hashes: npt.NDArray[np.uint64],
        owners: npt.NDArray[np.int64],
        chunk: int = 500,
        start_ms: int = 0,
        on_chunk: Callable[[int], None] = lambda _: None,
    ) -> npt.NDArray[np.int32]:
        """Route record i, at time start + i, by agent ``owners[i]``."""
        out = np.full(len(hashes), -1, np.int32)
        for start in range(0, len(hashes), chunk):
            self.now_ms = start_ms + start
            on_chunk(start)
            for number, agent in enumerate(self.agents):
                rows = start + np.flatnonzero(owners[start : start + chunk] == number)
                taken = np.empty(len(rows), np.int32)
                agent.route(hashes[rows], start_ms + rows, taken)
                out[rows] = taken
            self.reduce()
        return out


class Unreliable:
    """A channel that loses, doubles and reorders, by its own dice."""

    def __init__(self, inner: AgentChannel, seed: int) -> None:
        self.inner = inner
        self.dice = np.random.default_rng(seed)
        self.held: list[SyncMessage | LeaveMessage] = []
        self.late: list[GlobalTable] = []

    def send(self, message: SyncMessage | LeaveMessage) -> None:
        self.held.append(message)
        for held in self._released(self.held):
            self.inner.send(held)

    def receive(self) -> list[GlobalTable]:
        self.late += self.inner.receive()
        return list(self._released(self.late))

    def close(self) -> None:
        self.inner.close()

    def _released(self, waiting: list) -> Iterator:  # type: ignore[type-arg]
        items = [item for item in waiting for _ in range(self.dice.integers(0, 3))]
        waiting[:] = waiting[-3:] if self.dice.random() < 0.5 else []
        self.dice.shuffle(items)  # type: ignore[arg-type]
        return iter(items)
