"""The Q-table reducer: makes one table of what all agents of a group learned (section 4.1).

A round gathers the newest SYNC message of every agent, then closes: loads of a key are added up,
keys of a fair share of the total load are hot for all, and a Q-value is the average over the
agents, weighted by the load each of them saw of the key. The table goes to every agent.

A round closes when every agent that holds a lease has spoken, or ``wait_ms`` after the first one
did: an agent that lags or died is not waited for, and what it sends later enters the next round.
An agent joins by its first message; its lease ends ``lease_ms`` after its last.

Departures: the paper's formula divides the weighted average by the number of agents once more,
which would move every Q-value towards 0 at each meeting, above all rewards there are; we do not.
A key that no agent weighs (its load was 0 everywhere) takes the plain average. Loads are scaled to
the interval to come, for agents may have changed it at different times. A key stays in the table
for the round it was hot in and the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners.config import Config
from partitioners.dalton.messages import HIGHEST_Q, GlobalTable, LeaveMessage, SyncMessage
from partitioners.dalton.state import LOWEST_Q
from partitioners.errors import InputError

Clock = Callable[[], int]
ROUNDS_HOT = 2
_CALM_ROUNDS = 8  # rounds without a wish for longer intervals before they fall again


@dataclass(frozen=True, kw_only=True)
class ReducerConfig(Config):
    """Options of the reducer.

    Attributes:
        interval_ms: Length of an interval at first (DSYNC), in event time.
        min_interval_ms: It falls no further; None: ``interval_ms``.
        max_interval_ms: It rises no further.
        lease_ms: How long an agent belongs to the group after its last message.
        wait_ms: How long a round waits for the others after its first message.
    """

    interval_ms: int = 1_000
    min_interval_ms: int | None = None
    max_interval_ms: int = 600_000
    lease_ms: int = 30_000
    wait_ms: int = 1_000

    def __post_init__(self) -> None:
        for name in ("interval_ms", "max_interval_ms", "lease_ms", "wait_ms"):
            self.require_range(name, 1, 1 << 53)
        if self.min_interval_ms is not None:
            self.require_range("min_interval_ms", 1, 1 << 53)
        if not self.least_ms <= self.interval_ms <= self.max_interval_ms:
            raise InputError(
                f"interval_ms = {self.interval_ms} is not between min_interval_ms = "
                f"{self.least_ms} and max_interval_ms = {self.max_interval_ms}; put it there"
            )

    @property
    def least_ms(self) -> int:
        """The bound below which the interval does not fall."""
        return self.interval_ms if self.min_interval_ms is None else self.min_interval_ms


@dataclass
class _Member:
    """An agent of the group, as the reducer knows it."""

    epoch_ms: int
    sequence: int
    lease_end_ms: int


class QTableReducer:
    """Gathers SYNC messages and makes global tables.

    Args:
        num_partitions: Partitions of the topic.
        config: Options; None for the defaults.
        clock: Milliseconds that never go back, for leases and waiting.
        epoch_ms: When it started, by the wall clock: tells its tables from those of the one before.

    Example:
        >>> reducer = QTableReducer(2, clock=lambda: 0)
        >>> one, none = np.ones(1), np.empty(0)
        >>> reducer.receive(SyncMessage(agent="a", epoch_ms=0, sequence=1, interval_ms=1000,
        ...     wants_longer=False, load=10.0, top_keys=np.array([7], np.uint64),
        ...     top_loads=6 * one, row_keys=none.astype(np.uint64), row_loads=none,
        ...     row_values=none))
        >>> table = reducer.close_if_due()
        >>> table.keys.tolist(), table.values.tolist()
        ([7], [-2.0, -2.0])
    """

    def __init__(
        self,
        num_partitions: int,
        config: ReducerConfig | None = None,
        *,
        clock: Clock,
        epoch_ms: int = 0,
    ) -> None:
        self.num_partitions = num_partitions
        self.config = config or ReducerConfig()
        self.interval_ms = self.config.interval_ms
        self.round_number = 0
        self._clock = clock
        self._epoch_ms = epoch_ms
        self._members: dict[str, _Member] = {}
        self._pending: dict[str, SyncMessage] = {}
        self._first_ms = 0
        self._rounds_left: dict[int, int] = {}
        self._values: dict[int, npt.NDArray[np.float64]] = {}
        self._busy_ms = self._idle_ms = 0
        self._calm_rounds = _CALM_ROUNDS

    @property
    def members(self) -> list[str]:
        """Names of the agents that hold a lease."""
        now_ms = self._clock()
        return sorted(
            name for name, member in self._members.items() if member.lease_end_ms > now_ms
        )

    def start_from(self, table: GlobalTable) -> None:
        """Go on where another reducer of the group ended.

        Args:
            table: The last table it broadcast.
        """
        rows = table.values.reshape(table.keys.size, self.num_partitions)
        for key, rounds, row in zip(
            table.keys.tolist(), table.rounds_left.tolist(), rows, strict=True
        ):
            self._rounds_left[key] = rounds
            self._values[key] = row.copy()
        low, high = self.config.least_ms, self.config.max_interval_ms
        self.interval_ms = min(max(table.interval_ms, low), high)
        self._epoch_ms = max(self._epoch_ms, table.epoch_ms)
        self.round_number = table.round_number

    def receive(self, message: SyncMessage | LeaveMessage) -> None:
        """Take a message in; late and doubled ones change nothing.

        Args:
            message: From an agent of the group.
        """
        now_ms = self._clock()
        member = self._members.get(message.agent)
        if member is not None and message.epoch_ms < member.epoch_ms:
            return
        if isinstance(message, LeaveMessage):
            self._members.pop(message.agent, None)
            return
        if member is not None and (message.epoch_ms, message.sequence) <= (
            member.epoch_ms,
            member.sequence,
        ):
            return
        self._members[message.agent] = _Member(
            message.epoch_ms, message.sequence, now_ms + self.config.lease_ms
        )
        if not self._pending:
            self._first_ms = now_ms
        self._pending[message.agent] = message

    def note_time(self, *, busy_ms: int, idle_ms: int) -> None:
        """Count time spent on messages and on waiting for them, in this round."""
        self._busy_ms += busy_ms
        self._idle_ms += idle_ms

    def close_if_due(self) -> GlobalTable | None:
        """Close the round if nobody need be waited for.

        Returns:
            The table to broadcast, or None.
        """
        if not self._pending:
            return None
        now_ms = self._clock()
        waiting = [name for name in self.members if name not in self._pending]
        if waiting and now_ms - self._first_ms < self.config.wait_ms:
            return None
        self._members = {
            name: member for name, member in self._members.items() if member.lease_end_ms > now_ms
        }
        messages = [self._pending[name] for name in sorted(self._pending)]
        self._pending = {}
        self._adapt_interval(messages)
        return self._merge(messages)

    def _adapt_interval(self, messages: list[SyncMessage]) -> None:
        """Double the interval if someone still waits; halve it while there is little to do."""
        if any(message.wants_longer for message in messages):
            self.interval_ms = min(2 * self.interval_ms, self.config.max_interval_ms)
            self._calm_rounds = 0
        else:
            self._calm_rounds += 1
            if self._calm_rounds > _CALM_ROUNDS and self._idle_ms > self._busy_ms:
                self.interval_ms = max(self.interval_ms // 2, self.config.least_ms)
        self._busy_ms = self._idle_ms = 0

    def _merge(self, messages: list[SyncMessage]) -> GlobalTable:
        self.round_number += 1
        scales = [self.interval_ms / message.interval_ms for message in messages]
        load = sum(message.load * scale for message, scale in zip(messages, scales, strict=True))
        loads, rows = _gather(messages, scales, self.num_partitions)
        hot = [key for key, amount in loads.items() if amount >= max(load / self.num_partitions, 2)]
        hot.sort(key=lambda key: (-loads[key], key))
        self._rounds_left = {
            key: rounds - 1 for key, rounds in self._rounds_left.items() if rounds > 1
        }
        for key in hot[: self.num_partitions]:
            self._rounds_left[key] = ROUNDS_HOT
        before = self._values
        never_tried = np.full(self.num_partitions, LOWEST_Q)
        self._values = {
            key: rows.get(key, before.get(key, never_tried)) for key in self._rounds_left
        }
        keys = sorted(self._rounds_left)
        return GlobalTable(
            epoch_ms=self._epoch_ms,
            round_number=self.round_number,
            interval_ms=self.interval_ms,
            num_agents=len(messages),
            load=load,
            keys=np.array(keys, np.uint64),
            rounds_left=np.array([self._rounds_left[key] for key in keys], np.int64),
            values=np.concatenate([np.empty(0), *(self._values[key] for key in keys)]),
        )


def _gather(
    messages: list[SyncMessage], scales: list[float], num_partitions: int
) -> tuple[dict[int, float], dict[int, npt.NDArray[np.float64]]]:
    """Add up the loads of keys, and average their rows by load."""
    loads: dict[int, float] = {}
    parts: dict[int, list[tuple[float, npt.NDArray[np.float64]]]] = {}
    for message, scale in zip(messages, scales, strict=True):
        seen = dict(zip(message.top_keys.tolist(), message.top_loads.tolist(), strict=True))
        seen |= dict(zip(message.row_keys.tolist(), message.row_loads.tolist(), strict=True))
        for key, amount in seen.items():
            loads[key] = loads.get(key, 0.0) + amount * scale
        rows = message.row_values.reshape(message.row_keys.size, num_partitions)
        for key, row in zip(message.row_keys.tolist(), rows, strict=True):
            parts.setdefault(key, []).append((seen[key] * scale, row))
    averages = {}
    for key, weighted in parts.items():
        weights = np.array([weight for weight, _ in weighted])
        if not weights.any():
            weights = np.ones(len(weighted))
        shares = weights / weights.sum()
        average = shares @ np.stack([row for _, row in weighted])
        # Shares that add up to 1 + 1e-16 must not carry a value out of its range.
        averages[key] = np.clip(average, LOWEST_Q, HIGHEST_Q)
    return loads, averages
