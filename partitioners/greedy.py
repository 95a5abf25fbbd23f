"""Greedy placing of whole keys: each new key goes to the least loaded partition of all.

``on_greedy`` decides when a key first appears. ``off_greedy`` is told the keys' frequencies first
(``fit``) and places keys in order of falling frequency, each where least is so far: the bound of
what any scheme that keeps keys whole can reach, short of solving bin packing.

Paper: Nasir et al., "The Power of Both Choices", ICDE 2015, section IV.B (baselines "On-Greedy"
and "Off-Greedy").

======== =============================================================================
symbol   here
======== =============================================================================
L_i(t)   ``loads``, what this source has sent to each partition
p_k      load of key k in the stream given to ``fit``
======== =============================================================================

Cost per record O(1), O(n) at a key's first; memory 24 to 48 bytes per distinct key, for ever
(``on_greedy`` may forget it with ``window_ms``), and not shared: with more than one source a key is
whole per source only. Not for you where one key's load is more than a partition bears.

Departures: ``off_greedy`` takes a sample or a forecast as well as the whole stream. A key that
``fit`` did not see is placed as ``on_greedy`` does when it appears; without ``fit`` the two are the
same. Draws go to the lowest partition, or the highest with ``tie="last"``; keys of equal frequency
are placed in the order of their first record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partitioners._jit import kernel
from partitioners.base import KeyHashes, Loads, Traits
from partitioners.config import Config, Tie
from partitioners.errors import InputError
from partitioners.key_table import find_slot, new_key_table
from partitioners.loads import LoadWindowConfig, least_of_all
from partitioners.sticky import StickyPartitioner


@dataclass(frozen=True, kw_only=True)
class OnGreedyConfig(LoadWindowConfig):
    """Options of ``on_greedy``.

    Attributes:
        tie: Which partition wins a draw, the first or the last.
    """

    tie: Tie = "first"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_one_of("tie", ("first", "last"))


@dataclass(frozen=True, kw_only=True)
class OffGreedyConfig(Config):
    """Options of ``off_greedy``.

    Attributes:
        tie: Which partition wins a draw, the first or the last.
    """

    tie: Tie = "first"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_one_of("tie", ("first", "last"))


class OnGreedy(StickyPartitioner):
    """Greedy, as keys appear; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> create("on_greedy", 3).partition_batch(["a", "a", "b", "c", "d"]).tolist()
        [0, 0, 1, 2, 1]
    """

    name = "on_greedy"
    config_type = OnGreedyConfig
    traits = Traits(splits_keys=False)
    config: OnGreedyConfig

    def _first_choice(self) -> tuple[int, bool, bool, np.uint64]:
        return 0, False, self.config.tie == "last", np.uint64(0)


class OffGreedy(StickyPartitioner):
    """Greedy, by falling frequency; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> from partitioners.hashing import hash_keys
        >>> off = create("off_greedy", 2)
        >>> off.fit(hash_keys(["a", "b", "b", "c", "c", "c"]))
        >>> off.partition_batch(["a", "b", "c"]).tolist()
        [1, 1, 0]
    """

    name = "off_greedy"
    config_type = OffGreedyConfig
    traits = Traits(splits_keys=False, needs_batch=True)
    config: OffGreedyConfig

    def _window_ms(self) -> int:
        return 0

    def _first_choice(self) -> tuple[int, bool, bool, np.uint64]:
        return 0, False, self.config.tie == "last", np.uint64(0)

    def fit(self, key_hashes: KeyHashes, weights: Loads | None = None) -> None:
        """Place all keys of a stream, a sample or a list of keys with their loads; loads restart.

        Args:
            key_hashes: ``uint64[n]``, records or keys; repeats add up.
            weights: ``float64[n]``, load of each; None: 1 each.

        Raises:
            InputError: Another number of weights.
        """
        if weights is not None and len(weights) != len(key_hashes):
            raise InputError(f"fit got {len(key_hashes)} key hashes but {len(weights)} weights")
        keys, first, inverse = np.unique(key_hashes, return_index=True, return_inverse=True)
        loads = np.bincount(inverse, weights, minlength=len(keys))
        order = np.lexsort((first, -loads))
        self._state = self._new_state()
        self._state.table = table = new_key_table(_capacity_for(len(keys)))
        _place(
            keys[order],
            loads[order].astype(np.float64),
            self.config.tie == "last",
            np.zeros(self.num_partitions),
            table.key_hashes,
            table.partitions,
        )
        table.num_keys[0] = len(keys)
        self._bind()


def _capacity_for(num_keys: int) -> int:
    capacity = new_key_table().partitions.size
    while capacity <= 2 * num_keys:
        capacity *= 2
    return capacity


@kernel
def _place(
    keys: KeyHashes,
    key_loads: Loads,
    tie_last: bool,
    loads: Loads,
    table_hashes: KeyHashes,
    table_partitions: np.ndarray[tuple[int], np.dtype[np.int32]],
) -> None:
    for index in range(keys.size):
        best = least_of_all(loads, tie_last)
        slot = find_slot(table_hashes, table_partitions, keys[index])
        table_hashes[slot] = keys[index]
        table_partitions[slot] = best
        loads[best] += key_loads[index]
