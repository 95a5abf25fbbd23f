"""The partitioner `dalton` for one of several producers that learn together (Algorithm 2).

At the end of each interval an agent sends what it learned and goes from PREPARE to AWAIT. It routes
on by its own table, which goes on learning, and keeps the rewards apart; the answer replaces the
table, with the rewards kept since the message on top (equation 5), and the agent is back in
PREPARE. If the interval ends first, it sends again and wishes for longer intervals.

Routing never waits. Without an answer to ``patience`` messages the agent goes on alone, by its own
load and table, still sending; the next answer brings it back.

Departures: in AWAIT the paper's agent goes on choosing by the table as it was, so that all records
of a key would go to one partition for as long as the answer takes; ours acts on what it learns.
An average over A agents moves as far as each of them did, on an A-th of the records: together they
learned A times slower than one (imbalance of the windows 0.375 against 0.238 with eight). So an
agent's step is 1 - (1 - gamma)^A, the step of A rewards; ``scales_step=False`` is the paper's.
"""

from __future__ import annotations

import functools
import time
import uuid
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners._jit import ScalarEntry
from partitioners.base import (
    KeyHashes,
    Loads,
    Partitions,
    TimestampsMs,
)
from partitioners.config import Config
from partitioners.dalton.adopt import (
    counted_keys,
    forget_kept,
    heaviest,
    interval_loads,
    table_rows,
    take_in,
)
from partitioners.dalton.channels import AgentChannel
from partitioners.dalton.config import DaltonConfig
from partitioners.dalton.messages import GlobalTable, LeaveMessage, SyncMessage
from partitioners.dalton.partitioner import Dalton
from partitioners.dalton.reducer import Clock
from partitioners.dalton.state import (
    INTERVAL_END_MS,
    INTERVAL_LOAD,
    INTERVAL_MS,
    INTERVAL_OVER,
    NO_ROOM,
    NO_TIME_YET,
    STEP_SIZE,
    STOPPED,
    THRESHOLD,
    DaltonState,
)
from partitioners.dalton.step import LEAST_HOT_LOAD, end_interval, route_one

# sync: int64, what an agent knows of its messages
SEQUENCE = 0  # number of the last message
AWAITING = 1  # 1: AWAIT, else PREPARE
UNANSWERED = 2  # messages since the last table
TABLE_EPOCH_MS = 3
TABLE_ROUND = 4  # round of the last table; -1: none came yet
TABLE_INTERVAL_MS = 5
NUM_SYNC_FIELDS = 6

_CALLS_BETWEEN_LOOKS = 256  # a look at the channel costs some scalar calls
_LAST_MS = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class CooperativeConfig(DaltonConfig):
    """Options of an agent among several: those of ``dalton``, and one more.

    Attributes:
        patience: Messages without an answer after which the agent goes on alone.
        scales_step: Whether ``step_size`` grows with the number of agents.
    """

    patience: int = 8
    scales_step: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_range("patience", 1, 1 << 20)
        self.require_bool("scales_step")


@dataclass
class CooperativeState(DaltonState):
    """State of an agent among several."""

    sync: npt.NDArray[np.int64]  # int64[NUM_SYNC_FIELDS]
    global_load: npt.NDArray[np.float64]  # float64[1]: GL of the last table
    sent_keys: npt.NDArray[np.uint64]  # uint64[k]: Q-table as the message under way has it
    sent_values: npt.NDArray[np.float64]  # float64[k * n]


def wall_clock_ms() -> int:
    """Read the wall clock."""
    return time.time_ns() // 1_000_000


class CooperativeDalton(Dalton):
    """Learned partitioning by one of several agents.

    Args:
        num_partitions: Partitions there are.
        config: A ``CooperativeConfig``; None for the defaults.
        channel: To the group's reducer; None: alone, until ``join``.
        agent: Its name, of which there is one in the group; None: a name of its own.
        clock: Wall clock in milliseconds; read once, by ``join``.

    Example:
        >>> from partitioners.dalton import MemoryChannel, QTableReducer
        >>> channel = MemoryChannel()
        >>> reducer = QTableReducer(4, clock=lambda: 0)
        >>> agent = CooperativeDalton(4, channel=channel.agent(), agent="a", clock=lambda: 0)
        >>> _ = agent.partition_batch(["hot"] * 2_000, np.arange(2_000))
        >>> [message.load for message in channel.receive(0.0)]
        [1000.0]
    """

    config_type = CooperativeConfig
    config: CooperativeConfig
    _state: CooperativeState
    _cooperates = True

    def __init__(
        self,
        num_partitions: int,
        config: Config | None = None,
        *,
        channel: AgentChannel | None = None,
        agent: str | None = None,
        clock: Clock = wall_clock_ms,
    ) -> None:
        super().__init__(num_partitions, config)
        self.agent = agent or uuid.uuid4().hex
        self._clock = clock
        self._channel: AgentChannel | None = None
        self._calls = 0
        if channel is not None:
            self.join(channel)

    def join(self, channel: AgentChannel) -> None:
        """Begin to learn with the group of a channel.

        Args:
            channel: An agent's end, for this agent alone.
        """
        self._channel = channel
        self._epoch_ms = self._clock()

    def leave(self) -> None:
        """Tell the group that it need not wait for this agent; then go on alone."""
        if self._channel is not None:
            self._channel.send(LeaveMessage(agent=self.agent, epoch_ms=self._epoch_ms))
            self._channel.close()
            self._channel = None
            self._state.sync[UNANSWERED] = self.config.patience
            self._state.sync[AWAITING] = 0

    @property
    def awaits(self) -> bool:
        """Whether the agent is in AWAIT."""
        return bool(self._state.sync[AWAITING])

    @property
    def is_alone(self) -> bool:
        """Whether the agent goes by its own load, for want of a table of the group."""
        sync = self._state.sync
        return bool(sync[TABLE_ROUND] < 0 or sync[UNANSWERED] >= self.config.patience)

    @property
    def interval_ms(self) -> int:
        """Length of the intervals now."""
        return int(self._state.words[INTERVAL_MS])

    def _new_state(self) -> CooperativeState:
        sync = np.zeros(NUM_SYNC_FIELDS, np.int64)
        sync[TABLE_ROUND] = -1
        return CooperativeState(
            **vars(super()._new_state()),
            sync=sync,
            global_load=np.zeros(1),
            sent_keys=np.empty(0, np.uint64),
            sent_values=np.empty(0),
        )

    def _route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        homes: Partitions,
        weights: Loads | None,
        out: Partitions,
    ) -> None:
        self._look()
        super()._route(key_hashes, timestamps_ms, homes, weights, out)

    @functools.cached_property
    def _kernel(self) -> ScalarEntry:
        return route_one.entry()

    @functools.cached_property
    def _kernel_now(self) -> ScalarEntry:
        return route_one.entry(reads_clock=True)

    def _entry(self, key_hash: int, timestamp_ms: int | None, address: int) -> int:
        self._calls += 1
        if self._calls >= _CALLS_BETWEEN_LOOKS:
            self._calls = 0
            self._look()
            address = self._address
        if timestamp_ms is None:
            return self._kernel_now(key_hash, timestamp_ms, address)
        return self._kernel(key_hash, timestamp_ms, address)

    _entry_now = _entry

    def _resume(self) -> None:
        if self._state.words[STOPPED] == NO_ROOM:
            super()._resume()
            return
        assert self._state.words[STOPPED] == INTERVAL_OVER
        begins = self._state.words[INTERVAL_END_MS] == NO_TIME_YET
        if not begins:
            self._look()
            self._send()
        end_interval(self._handles)
        if self.is_alone:
            self._state.amounts[STEP_SIZE] = self.config.step_size
        else:
            self._use_global_load()
        if begins:
            self._look()

    def _look(self) -> None:
        """Take in the newest table that came."""
        if self._channel is None or self._state.words[INTERVAL_END_MS] == NO_TIME_YET:
            return
        newest = None
        sync = self._state.sync
        last = (int(sync[TABLE_EPOCH_MS]), int(sync[TABLE_ROUND]))
        for table in self._channel.receive():
            if (table.epoch_ms, table.round_number) > last:
                newest, last = table, (table.epoch_ms, table.round_number)
        if newest is not None:
            self._take_in(newest)

    def _take_in(self, table: GlobalTable) -> None:
        state = self._state
        state.sync[AWAITING] = state.sync[UNANSWERED] = 0
        state.sync[TABLE_EPOCH_MS] = table.epoch_ms
        state.sync[TABLE_ROUND] = table.round_number
        state.sync[TABLE_INTERVAL_MS] = table.interval_ms
        state.global_load[0] = table.load
        state.words[INTERVAL_MS] = table.interval_ms
        self._use_global_load()
        if self.config.scales_step:
            kept = (1.0 - self.config.step_size) ** table.num_agents
            state.amounts[STEP_SIZE] = 1.0 - kept
        # Through the next interval, in the course of which the next table comes.
        end_ms = int(state.words[INTERVAL_END_MS])
        expiry_ms = min(end_ms + table.interval_ms, _LAST_MS)
        while not take_in(table.keys, table.values, expiry_ms, self._handles):
            self._make_room()

    def _use_global_load(self) -> None:
        state = self._state
        scale = int(state.words[INTERVAL_MS]) / int(state.sync[TABLE_INTERVAL_MS])
        threshold = state.global_load[0] * scale / self.num_partitions
        state.amounts[THRESHOLD] = max(threshold, LEAST_HOT_LOAD)

    def _send(self) -> None:
        """Send what was learned and seen in the interval that ends."""
        if self._channel is None:
            return
        state = self._state
        waits = self.awaits
        if not waits:
            state.sent_keys, state.sent_values = table_rows(state, self.num_partitions)
            forget_kept(state)
        row_loads = np.empty(len(state.sent_keys))
        interval_loads(state.sent_keys, self._handles, row_loads)
        top_keys, top_loads = heaviest(*counted_keys(state), self.num_partitions)
        state.sync[SEQUENCE] += 1
        state.sync[UNANSWERED] += 1
        state.sync[AWAITING] = state.sync[UNANSWERED] < self.config.patience
        message = SyncMessage(
            agent=self.agent,
            epoch_ms=self._epoch_ms,
            sequence=int(state.sync[SEQUENCE]),
            interval_ms=self.interval_ms,
            wants_longer=waits,
            load=float(state.amounts[INTERVAL_LOAD]),
            top_keys=top_keys,
            top_loads=top_loads,
            row_keys=state.sent_keys,
            row_loads=row_loads,
            row_values=state.sent_values,
        )
        self._channel.send(message)
