"""What `cm`, `am`, `cam` and `lm` share: loads and cardinalities of the partitions in the window.

The steps here are the paper's C[i].update(k), C[i].estimate(), C[i].contains(k) and L[i] += 1
(Katsipoulakis, Labrinidis, Chrysanthis: A Holistic View of Stream Partitioning Costs, PVLDB
10(11), 2017, sections 3.2 and 4); each algorithm's file puts them together.

Two ways to count the distinct keys of a partition:

- exact: one table of (key, partition) pairs with the pane each was last seen in (`key_sets`), and
  a ring of counters: a pair is counted in its last pane, so when that pane expires the counts are
  right without a look at the table.
- hll: one HyperLogLog per partition (`sketches.hyperloglog`), of fixed memory.

A sketch cannot tell whether a key was seen; the paper asks whether inserting it would change the
count, which says yes to keys never seen and sends the records of one key to two partitions. So
with hll, `am` and `cam` do not ask the sketch. They keep a table of 2**16 slots; a key's hash gives
its slot, and a slot holds *which candidate* (the first, the second, ...) was chosen when the slot
was first used in the window. All keys of a slot share that choice until no live pane holds a record
of any of them. A key thus stays whole by construction; what it costs is that a key whose slot is in
use goes to the slot's candidate without a look at the loads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing, borrowing_step
from partitioners._jit import (
    float64_at,
    handles,
    inlined,
    int32_at,
    int64_at,
    uint8_at,
    uint64_at,
)
from partitioners.base import (
    MAX_PARTITIONS,
    NO_WEIGHTS,
    ChoicePartitioner,
    KeyHashes,
    Loads,
    Partitions,
    TimestampsMs,
    choices_in_use,
)
from partitioners.config import ChoiceConfig, Config
from partitioners.hashing import fill_candidates, mix64, seed_word, two_candidates
from partitioners.key_sets import find_slot, new_table, pane_at, partition_at, put, resized
from partitioners.panes import (
    FIRST_PANE,
    NEXT_PANE_MS,
    NOW_PANE,
    NOW_ROW,
    NUM_PANES,
    OLDEST_PANE,
    advance_clock,
    new_clock,
    num_panes,
    open_panes,
)
from partitioners.sketches.hyperloglog import (
    Sketches,
    add_hash,
    clear,
    expire_panes,
    new_sketches,
)

Cardinality: TypeAlias = Literal["exact", "hll"]

Handles: TypeAlias = npt.NDArray[np.int64]
Ranges: TypeAlias = npt.NDArray[np.float64]

NUM_SLOTS = 1 << 16
NOWHERE = -1
_POSITION_BITS = np.uint64(21)
_POSITION_MASK = np.uint64((1 << 21) - 1)

# Fields of `usage`.
USED_SLOTS = 0  # entries of the exact table that are not empty
PEAK_ENTRIES = 1  # live entries before the last pane was opened
RESIZE_WANTED = 2
USAGE_FIELDS = 3

RANGE_FIELDS = 6

# Fields of `options`.
EXACT = 0
TIE_LAST = 1
DISTINCT = 2
SEED = 3
COUNTS_KEYS = 4

# Sketches keep the number of a pane in 31 bits.
_SKETCH_PANES = 1 << 31
NO_CHOICES = np.empty((0, 0), np.int32)


@dataclass
class WindowState:
    """State of one partitioner: n partitions, m panes, s sketches (n or 0), t of them stamped."""

    clock: npt.NDArray[np.int64]  # int64[CLOCK_FIELDS], see panes.py
    usage: npt.NDArray[np.int64]  # int64[USAGE_FIELDS]
    loads: npt.NDArray[np.float64]  # float64[n], sum of the weights of the live records
    load_ring: npt.NDArray[np.float64]  # float64[m * n]
    cardinalities: npt.NDArray[np.float64]  # float64[n], distinct keys of the live records
    key_ring: npt.NDArray[np.float64]  # float64[m * n], pairs by the pane last seen in; hll: [0]
    table: npt.NDArray[np.uint64]  # uint64[2 * capacity], see key_sets.py; hll: [NUM_SLOTS] or [0]
    ranges: npt.NDArray[np.float64]  # float64[6]: min, max, how many are at min, of loads and keys
    registers: npt.NDArray[np.uint8]  # uint8[s * NUM_REGISTERS], see sketches/hyperloglog.py
    zeros: npt.NDArray[np.float64]  # float64[s]
    harmonic: npt.NDArray[np.float64]  # float64[s]
    top_panes: npt.NDArray[np.int32]  # int32[t * NUM_REGISTERS]
    rank_panes: npt.NDArray[np.int32]  # int32[t * NUM_REGISTERS * NUM_RANKS]


class View(NamedTuple):
    """State and options as a kernel sees them."""

    clock: npt.NDArray[np.int64]
    usage: npt.NDArray[np.int64]
    loads: npt.NDArray[np.float64]
    load_ring: npt.NDArray[np.float64]
    cardinalities: npt.NDArray[np.float64]
    key_ring: npt.NDArray[np.float64]
    table: npt.NDArray[np.uint64]
    ranges: npt.NDArray[np.float64]
    sketches: Sketches
    options: npt.NDArray[np.int64]  # [OPTION_FIELDS]
    settings: npt.NDArray[np.float64]  # an algorithm's own numbers
    identity: npt.NDArray[np.int32]  # [n], see hashing.fill_candidates
    chosen: npt.NDArray[np.int32]  # [d], candidates of the record in hand


@inlined
def open_view(packed: npt.NDArray[np.int64]) -> View:
    """Open the handles of `CardinalityPartitioner._bind` inside a kernel."""
    cardinalities = float64_at(packed, 4)
    return View(
        int64_at(packed, 0),
        int64_at(packed, 1),
        float64_at(packed, 2),
        float64_at(packed, 3),
        cardinalities,
        float64_at(packed, 5),
        uint64_at(packed, 6),
        float64_at(packed, 7),
        Sketches(
            uint8_at(packed, 8),
            float64_at(packed, 9),
            float64_at(packed, 10),
            cardinalities,
            int32_at(packed, 11),
            int32_at(packed, 12),
        ),
        int64_at(packed, 13),
        float64_at(packed, 14),
        int32_at(packed, 15),
        int32_at(packed, 16),
    )


@borrowing
def _start_pane(state: View, timestamp_ms: int) -> None:
    """Open the panes up to the one of a timestamp and forget what leaves the window."""
    exact = state.options[EXACT] != 0
    clock = state.clock
    pane_before = clock[NOW_PANE]
    opened = advance_clock(clock, timestamp_ms)
    if exact:
        state.usage[PEAK_ENTRIES] = np.int64(state.cardinalities.sum())
        capacity = state.table.size // 2
        if clock[FIRST_PANE] == clock[NOW_PANE]:
            state.usage[USED_SLOTS] = 0
        if capacity > 1024 and 16 * state.usage[PEAK_ENTRIES] < capacity:
            state.usage[RESIZE_WANTED] = 1
        open_panes(clock, opened, state.key_ring, state.cardinalities)
    elif state.sketches.registers.size > 0:
        era = clock[NOW_PANE] // _SKETCH_PANES
        if clock[FIRST_PANE] == clock[NOW_PANE] or era > pane_before // _SKETCH_PANES:
            clear(state.sketches)
        else:
            expire_panes(state.sketches, clock[OLDEST_PANE] - era * _SKETCH_PANES)
    open_panes(clock, opened, state.load_ring, state.loads)


@borrowing_step
def enter_pane(state: View, timestamp_ms: int) -> bool:
    """Take note of a record's time; say whether a pane was opened."""
    if timestamp_ms < state.clock[NEXT_PANE_MS]:
        return False
    _start_pane(state, timestamp_ms)
    return True


@borrowing_step
def least(values: npt.NDArray[np.float64], choices: npt.NDArray[np.int32], tie_last: bool) -> int:
    """Return the position in `choices` of the partition with the least value."""
    best = 0
    least_value = values[choices[0]]
    for position in range(1, choices.size):
        value = values[choices[position]]
        # No branch: which of two comes out cannot be predicted.
        better = (value < least_value) | (tie_last & (value == least_value))
        best = best + (position - best) * int(better)
        least_value = min(value, least_value)
    return best


@borrowing_step
def add_load(state: View, partition: int, weight: float) -> None:
    """L[i] += 1, or the record's weight."""
    state.loads[partition] += weight
    state.load_ring[state.clock[NOW_ROW] * state.loads.size + partition] += weight


@borrowing_step
def _note_pair(state: View, slot: int, key_hash: np.uint64, partition: int) -> None:
    """Put a pair seen now into the slot that was found for it, and count it in this pane."""
    clock = state.clock
    pane_then = pane_at(state.table, slot)
    if pane_then >= clock[OLDEST_PANE]:
        partition_then = partition_at(state.table, slot)
        if pane_then == clock[NOW_PANE] and partition_then == partition:
            return
        state.cardinalities[partition_then] -= 1.0
        row_then = pane_then % clock[NUM_PANES]
        state.key_ring[row_then * state.loads.size + partition_then] -= 1.0
    elif pane_then < clock[FIRST_PANE]:
        state.usage[USED_SLOTS] += 1
        # Half full at most: 1.5 probes to find a pair, 2.5 to learn that it is not there.
        if 4 * state.usage[USED_SLOTS] > state.table.size:
            state.usage[RESIZE_WANTED] = 1
    state.cardinalities[partition] += 1.0
    state.key_ring[clock[NOW_ROW] * state.loads.size + partition] += 1.0
    put(state.table, slot, key_hash, partition, clock[NOW_PANE])


@borrowing_step
def count_key(state: View, key_hash: np.uint64, partition: int, exact: bool) -> None:
    """C[i].update(k), where a key may be on several partitions."""
    if exact:
        slot = find_slot(state.table, state.clock, key_hash, partition, False)
        _note_pair(state, slot, key_hash, partition)
    else:
        add_hash(state.sketches, partition, key_hash, state.clock[NOW_PANE] % _SKETCH_PANES)


@borrowing_step
def find_key(state: View, key_hash: np.uint64, exact: bool) -> int:
    """Return the slot of a key that has one partition."""
    if exact:
        return find_slot(state.table, state.clock, key_hash, 0, True)
    return int(np.int64(mix64(key_hash) & np.uint64(NUM_SLOTS - 1)))


@borrowing_step
def settled(state: View, slot: int, choices: npt.NDArray[np.int32], exact: bool) -> int:
    """Return the position in `choices` that a key is settled on, or NOWHERE.

    This is C[i].contains(k) for all candidates at once, as a key has one partition.
    """
    if exact:
        if pane_at(state.table, slot) >= state.clock[OLDEST_PANE]:
            partition = partition_at(state.table, slot)
            for position in range(choices.size):
                if choices[position] == partition:
                    return position
    else:
        entry = state.table[slot]
        if np.int64(entry >> _POSITION_BITS) >= state.clock[OLDEST_PANE]:
            return int(np.int64(entry & _POSITION_MASK))
    return NOWHERE


@borrowing_step
def settle(
    state: View, slot: int, key_hash: np.uint64, position: int, partition: int, exact: bool
) -> None:
    """Keep a key, seen now, on a partition, and count it there: C[i].update(k)."""
    if exact:
        _note_pair(state, slot, key_hash, partition)
    else:
        state.table[slot] = (np.uint64(state.clock[NOW_PANE]) << _POSITION_BITS) | np.uint64(
            position
        )
        if state.sketches.registers.size > 0:
            add_hash(state.sketches, partition, key_hash, state.clock[NOW_PANE] % _SKETCH_PANES)


@borrowing_step
def choose_candidates(state: View, key_hash: np.uint64) -> None:
    """Write the candidates of a key to `state.chosen`."""
    chosen = state.chosen
    seed = np.uint64(state.options[SEED])
    distinct = state.options[DISTINCT] != 0
    if chosen.size == 2:
        chosen[0], chosen[1] = two_candidates(key_hash, seed, state.loads.size, distinct)
    else:
        fill_candidates(key_hash, seed, distinct, state.identity, chosen)


@borrowing_step
def load_of(weights: Loads, row: int) -> float:
    """Return the load of a record: 1 where no weights are given."""
    return weights[row] if weights.size > 0 else 1.0


@dataclass(frozen=True, kw_only=True)
class CardinalityConfig(ChoiceConfig):
    """Options that `cm`, `am`, `cam` and `lm` share.

    Attributes:
        d: Candidates of a key; with `distinct` at most all partitions are used.
        window_ms: Window that loads and cardinalities are counted over.
        slide_ms: Slide of the window, which it divides; None: tumbling, everything is forgotten at
            the multiples of the window.
        cardinality: `exact`: memory grows with the live keys; `hll`: fixed memory, estimates.
    """

    d: int = 2
    window_ms: int = 60_000
    slide_ms: int | None = None
    cardinality: Cardinality = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_range("d", 1, MAX_PARTITIONS)
        self.require_range("window_ms", 1, 1 << 53)
        if self.slide_ms is not None:
            self.require_range("slide_ms", 1, 1 << 53)
        num_panes(self.window_ms, self.pane_ms)
        self.require_one_of("cardinality", ("exact", "hll"))

    @property
    def pane_ms(self) -> int:
        """Length of a pane: the slide."""
        return self.window_ms if self.slide_ms is None else self.slide_ms


class CardinalityPartitioner(ChoicePartitioner):
    """Base of `cm`, `am`, `cam` and `lm`: state, growth of the table, and the calls of kernels.

    Attributes:
        keys_whole: Whether a key has one partition in a window, so one entry in the table.
        counts_keys: Whether cardinalities take part in the choice.
        select_kernel: Loop over records; stops after a record when the table wants a new size.
    """

    config_type: ClassVar[type[Config]] = CardinalityConfig
    config: CardinalityConfig
    _state: WindowState
    keys_whole: ClassVar[bool]
    counts_keys: ClassVar[bool] = True
    select_kernel: ClassVar[Callable[..., int]]

    @property
    def num_choices(self) -> int:
        """Candidates of a key."""
        return choices_in_use(self.config.d, self.num_partitions, distinct=self.config.distinct)

    @property
    def loads(self) -> Loads:
        """Load of each partition in the window, float64[n], a copy."""
        return self._state.loads.copy()

    @property
    def cardinalities(self) -> Loads:
        """Distinct keys of each partition in the window: float64[n], a copy; 0 if not counted."""
        return self._state.cardinalities.copy()

    def select(
        self,
        choices: npt.NDArray[np.int32],
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose among given partitions; see `ChoicePartitioner.select`."""
        self._run(choices, key_hashes, timestamps_ms, out, weights)

    def route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose partitions; see `Partitioner.route`."""
        self._run(NO_CHOICES, key_hashes, timestamps_ms, out, weights)

    def _run(
        self,
        choices: npt.NDArray[np.int32],
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None,
    ) -> None:
        loads = NO_WEIGHTS if weights is None else weights
        row = 0
        while row < len(key_hashes):
            row = type(self).select_kernel(
                self._handles, choices, key_hashes, timestamps_ms, loads, row, out
            )
            if self._state.usage[RESIZE_WANTED]:
                self._make_room()

    def _make_room(self) -> None:
        """Give the table the size its live entries need, larger or smaller."""
        state = self._state
        entries = max(int(state.cardinalities.sum()), int(state.usage[PEAK_ENTRIES]))
        state.table, state.usage[USED_SLOTS] = resized(
            state.table, state.clock, entries, self.keys_whole
        )
        state.usage[RESIZE_WANTED] = 0
        self._bind()

    def _settings(self) -> list[float]:
        """Numbers for the algorithm's own kernel."""
        return []

    def _new_state(self) -> WindowState:
        n = self.num_partitions
        exact = self.config.cardinality == "exact"
        clock = new_clock(self.config.window_ms, self.config.pane_ms)
        panes = int(clock[NUM_PANES])
        sketches = new_sketches(n if self.counts_keys and not exact else 0, panes)
        num_slots = NUM_SLOTS if self.keys_whole else 0
        return WindowState(
            clock=clock,
            usage=np.zeros(USAGE_FIELDS, np.int64),
            loads=np.zeros(n),
            load_ring=np.zeros(panes * n),
            cardinalities=np.zeros(n),
            key_ring=np.zeros(panes * n if exact else 0),
            table=new_table() if exact else np.zeros(num_slots, np.uint64),
            ranges=np.zeros(RANGE_FIELDS),
            registers=sketches.registers,
            zeros=sketches.zeros,
            harmonic=sketches.harmonic,
            top_panes=sketches.top_panes,
            rank_panes=sketches.rank_panes,
        )

    def _bind(self) -> None:
        config = self.config
        options = [
            config.cardinality == "exact",
            config.tie == "last",
            config.distinct,
            int(seed_word(config.seed).astype(np.int64)),
            self.counts_keys,
        ]
        self._options = np.array(options, np.int64)
        self._numbers = np.array(self._settings(), np.float64)
        self._identity = np.arange(self.num_partitions, dtype=np.int32)
        self._chosen = np.zeros(self.num_choices, np.int32)
        self._handles = handles(
            *(getattr(self._state, field.name) for field in fields(self._state)),
            self._options,
            self._numbers,
            self._identity,
            self._chosen,
        )
