"""Dalton: hot keys are spread by what was learned of each partition; the rest goes home.

A key is hot when its load in the interval reaches a fair share of the last interval's load. A hot
key has a row of Q-values, one per partition; each of its records goes to the best one, or, one in
ten, anywhere. The reward of a choice falls with the load of the partition and with the number of
partitions that hold the key, and moves the Q-value towards it. So a hot key stays where it is until
that partition is too full, and a key that cools down is whole again when the window has passed.

Paper: Zapridou, Mytilinis, Ailamaki, "Dalton: Learned Partitioning for Distributed Data Streams",
PVLDB 16(3), 2022: Algorithm 1 and sections 3.2, 3.3 (one producer); Algorithm 2 and section 4.1
(several producers); section 4.2 (key forwarding; ``Dalton.is_whole`` is what it needs).

============= ==================================================================================
symbol        here
============= ==================================================================================
n             ``num_partitions``
W, s          ``window_ms``, ``slide_ms``
STATS_WIN     ``interval_ms``, also DSYNC, the time between two meetings of several producers
f(k), L       load of a key in this interval; load of the last one, hot is f(k) >= L / n
Q(k, i)       ``values``, leaves of a winner tree per row
gamma         ``step_size``
epsilon       ``exploration``
p1, p2        ``balance_weight``, 1 - ``balance_weight``
R, CI, CA     ``step._reward`` and its two terms (equations 3 and 4)
||X(k)||      ``ROW_SPLIT``, partitions that hold the key in the window
GL            ``GlobalTable.load``
============= ==================================================================================

Cost per record: O(1) for keys that are not hot, whatever n; O(log n) for hot ones, and O(n) for
the few explorations of a key at its split limit. Memory: 1 MB for the counts of 10,000 keys,
8 bytes * n per slide of the window, about 36 bytes * n per hot key, of which there are at most n
per interval and usually a handful; it does not grow with the number of keys. Not for you where the
order of one key's records matters; where hot keys turn hot and cold within one interval; or where
replication is dear and skew is high: exploration brings every hot key to nearly all partitions.

Departures from the paper, none of which changes a choice on a stream without gaps: Loads may be
weighted. A key needs a load of 2 to be hot, and at most n keys turn hot in one interval (Theorem
3.4), so that the first interval after a silence does not make every key hot. In the first interval
no key is hot. An interval without records leaves the threshold as it is. Keys first seen after
``exact_keys`` others are counted by a sketch in the same interval; the paper changes over between
two intervals.

The authors' code has a limit on splitting that the paper does not mention: it starts at 2 and rises
by one, up to 6, when 70 % of the hot keys have reached it. With 64 partitions a key of a third of
the stream then has 6 of the 21 partitions it needs. Here it rises up to ``max_split``, by default
all partitions; ``first_split=None`` leaves the limit out. Their fragmentation never expires; ours
does. ``rules="published"`` gives their details (strict comparison with a whole threshold, a row
that lives a tick longer, one more slide in the window, fragmentation that stays) and with
``max_split=6``, ``seed=3`` and their homes their very choices.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioners import hashing
from partitioners.base import (
    NO_WEIGHTS,
    KeyHashes,
    Loads,
    Partitioner,
    Partitions,
    TimestampsMs,
    Traits,
)
from partitioners.config import Config
from partitioners.dalton.config import DaltonConfig
from partitioners.dalton.queries import key_split
from partitioners.dalton.state import (
    NO_ROOM,
    STOPPED,
    DaltonState,
    double_rows,
    halve_rows,
    has_spare_rows,
    new_options,
    new_state,
    pack,
)
from partitioners.dalton.step import STOP, rebuild_index, route_all, route_one

_NO_HOMES = np.empty(0, np.int32)


class Dalton(Partitioner):
    """Learned partitioning by one agent; see ``partitioners.dalton``.

    Example:
        >>> from partitioners import create
        >>> dalton = create("dalton", 4, slide_ms=100)
        >>> times = np.arange(1000)
        >>> whole = dalton.partition_batch([f"key {i}" for i in range(1000)], times)
        >>> hot = dalton.partition_batch(["hot"] * 1000, 1000 + times)
        >>> len(set(hot.tolist()))
        4
    """

    name = "dalton"
    config_type = DaltonConfig
    traits = Traits(splits_keys=True, uses_time=True, stochastic=True)
    scalar_kernel = route_one
    config: DaltonConfig
    _state: DaltonState
    _cooperates = False

    def __init__(self, num_partitions: int, config: Config | None = None) -> None:
        super().__init__(num_partitions, config)

    def _new_state(self) -> DaltonState:
        return new_state(self.num_partitions, self.config, keeps_rewards=self._cooperates)

    def _bind(self) -> None:
        self._options, self._rates = new_options(
            self.num_partitions, self.config, stops=self._cooperates
        )
        self._handles = pack(self._options, self._rates, self._state)

    def candidates(self, key_hashes: KeyHashes) -> npt.NDArray[np.int32]:
        """Say where each key goes while it is not hot.

        Args:
            key_hashes: ``uint64[n]``.

        Returns:
            ``int32[n, 1]``, homes: the first candidates of ``hashing.candidates``.
        """
        return hashing.candidates(key_hashes, 1, self.num_partitions, self.config.seed)

    def route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose partitions; see ``Partitioner.route``."""
        self._route(key_hashes, timestamps_ms, _NO_HOMES, weights, out)

    def select(
        self,
        choices: npt.NDArray[np.int32],
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose partitions, with homes given from outside.

        Args:
            choices: ``int32[n, 1]``, home of each record's key; one key has one home.
            key_hashes: ``uint64[n]``.
            timestamps_ms: ``int64[n]``, event time.
            out: ``int32[n]`` to fill.
            weights: ``float64[n]``, load of each record; None: 1 each.
        """
        homes = np.ascontiguousarray(choices[:, 0], np.int32)
        self._route(key_hashes, timestamps_ms, homes, weights, out)

    def is_whole(self, key_hash: int) -> bool:
        """Say whether all records of a key in the live window went to its home.

        Args:
            key_hash: The key's hash, unsigned or signed.

        Returns:
            True: as far as this producer goes, its partial result needs no merging.
        """
        word = np.array([key_hash & 0xFFFFFFFFFFFFFFFF], np.uint64).view(np.int64)
        return key_split(word.item(), self._handles) == 0

    def _route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        homes: Partitions,
        weights: Loads | None,
        out: Partitions,
    ) -> None:
        if has_spare_rows(self._state):
            halve_rows(self._state)
            self._index_rows()
        loads = NO_WEIGHTS if weights is None else weights
        start = 0
        while True:
            start += route_all(
                key_hashes[start:],
                timestamps_ms[start:],
                homes[start:],
                loads[start:],
                self._handles,
                out[start:],
            )
            if start == len(key_hashes):
                return
            self._resume()

    def _finish_one(self, partition: int, key_hash: int, timestamp_ms: int | None) -> int:
        while partition == STOP:
            self._resume()
            if timestamp_ms is None:
                partition = self._entry_now(key_hash, None, self._address)
            else:
                partition = self._entry(key_hash, timestamp_ms, self._address)
        return partition

    def _resume(self) -> None:
        """Do what a kernel cannot, so that it can go on with the next record."""
        assert self._state.words[STOPPED] == NO_ROOM
        self._make_room()

    def _make_room(self) -> None:
        double_rows(self._state)
        self._index_rows()

    def _index_rows(self) -> None:
        self._handles = pack(self._options, self._rates, self._state)
        rebuild_index(self._handles)
