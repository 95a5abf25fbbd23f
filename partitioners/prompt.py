"""Prompt: a whole micro-batch is collected, then cut into blocks of equal size and cardinality.

Where every other algorithm decides record by record, this one first counts a batch. Keys above the
mean load are cut, the others dealt whole in falling order, zigzag over the blocks; the rests of the
cut keys fill the blocks to the brim. So blocks are equal to one record, the keys in them nearly,
and few keys are split: what hashing and shuffling have only one of each.

Paper: Abdelhamid, Mahmood, Daghistani, Aref, "Prompt: Dynamic Data-Partitioning for Distributed
Micro-batch Stream Processing Systems", SIGMOD 2020, section 4.1 (Algorithm 1, buffering), 4.2
(Algorithm 2, partitioning) and 3.3 (its measures, see ``block_metrics``). Algorithms 3 and 4, of
the reduce stage and of scaling, are no partitioning of a topic.

================ ====================================================================
symbol           here
================ ====================================================================
P                ``num_partitions``, blocks
N_C, K           records and distinct keys of the batch
P_Size           capacity of a block, N_C / P
S_Cut            split cut-off, N_C / K
RList            keys with a rest
HTable           ``micro_batch.MicroBatch``
CountTree        ``count_tree.CountTree``, with ``budget``, f.step and t.step
N_Est, K_Avg     mean load and keys of the last batches
================ ====================================================================

Cost per record two table reads; per batch O(k) with k keys to sort and deal, and O(P) for each key
above the mean. Memory 70 to 140 bytes per key of the batch, 48 more with the tree; after a batch
only its plan stays. The caller keeps the records. Not for you where results must not wait for a
batch, or where batches are small: every record waits for the last of its batch.

How a batch is given: ``partition_micro_batch`` cuts records into blocks at once. Or ``fit`` shows
the batch, and its records are then routed one by one or in any pieces, with the same result; or
``observe`` while records arrive and ``seal`` at the end of the interval. ``partition`` and
``partition_batch`` never plan: with more records than planned each key begins its fragments anew,
so a plan serves as a forecast too, and a key in no plan goes where its hash says. Without a plan
``prompt`` is hashing.

Departures. Algorithm 2 takes the rests largest first: the last blocks with room then get thousands
of small ones. We begin with the smallest, most of which stay on their key's own block; on 1M
records, Zipf(1.0) over 100,000 keys, 16 blocks, that is a BCI of 2 instead of 2,690 keys and a
KSR of 1.0002 instead of 1.071 (``rests="largest_first"`` is as printed). A key is split three ways
at most there, and a rest that fits nowhere is not spoken of: ours fills the block with most room,
and so on until the rest fits. A block may exceed its capacity by up to the cut-off where keys do
not divide evenly: we give back what is too much of its heaviest key, so that blocks are equal as
Definition 1 asks; ``equal_blocks=False`` leaves it. With fewer keys than blocks the cut-off is the
capacity. The zigzag begins where the cut keys ended, not at the first block, so that first
fragments differ by one at most. A key is cut by its true load, also where the order is only nearly
sorted. ``order="sort"`` sorts exactly at the end of the batch; "count_tree" is the paper's tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from partitioners import count_tree, micro_batch
from partitioners._jit import (
    ScalarKernel,
    as_int64,
    float64_at,
    handles,
    handles_at,
    int32_at,
    uint64_at,
)
from partitioners.base import (
    NO_WEIGHTS,
    KeyHashes,
    Loads,
    Partitioner,
    Partitions,
    TimestampsMs,
    Traits,
)
from partitioners.block_plan import (
    BlockPlan,
    block_of,
    empty_plan,
    hand_out,
    hand_out_numbers,
    plan_blocks,
)
from partitioners.config import Config
from partitioners.count_tree import CountTree
from partitioners.errors import InputError
from partitioners.hashing import (
    Keys,
    candidate_word,
    hash_keys_with_nulls,
    seed_word,
    upper_range,
)
from partitioners.micro_batch import NO_KEY, MicroBatch, find_key

BATCHES_REMEMBERED = 4


@dataclass(frozen=True, kw_only=True)
class PromptConfig(Config):
    """Options of ``prompt``.

    Attributes:
        equal_blocks: Whether a block over its capacity gives back; False: as printed.
        rests: Which rest of a cut key is placed first; "largest_first" is Algorithm 2.
        order: How keys come in falling order: "sort" at the end of the batch, or "count_tree".
        budget: Updates of a key in the tree per batch.
        batch_ms: Length of a batch in event time; only the tree's time steps use it.
        expected_records: Of the first batch; later ones expect what the last had. Only the tree.
        expected_keys: As ``expected_records``.
        seed: Places keys that no plan knows; any 64-bit integer.
    """

    equal_blocks: bool = True
    rests: Literal["smallest_first", "largest_first"] = "smallest_first"
    order: Literal["sort", "count_tree"] = "sort"
    budget: int = 8
    batch_ms: int = 1_000
    expected_records: int = 100_000
    expected_keys: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_bool("equal_blocks")
        self.require_one_of("rests", ("smallest_first", "largest_first"))
        self.require_one_of("order", ("sort", "count_tree"))
        self.require_range("budget", 1, 1 << 20)
        self.require_range("batch_ms", 1, 1 << 53)
        self.require_range("expected_records", 1, 1 << 53)
        self.require_range("expected_keys", 1, 1 << 53)
        self.require_range("seed", -(1 << 63), (1 << 64) - 1)


@dataclass
class PromptState:
    """The batch being collected, the plan in force, and the sizes of the last batches."""

    batch: MicroBatch
    tree: CountTree
    plan: BlockPlan
    last_loads: npt.NDArray[np.float64]  # float64[0 to BATCHES_REMEMBERED]
    last_keys: npt.NDArray[np.float64]  # float64[0 to BATCHES_REMEMBERED]


@ScalarKernel
def _hand_out_one(key_hash: int, timestamp_ms: int | None, address: int) -> int:  # noqa: ARG001
    packed = handles_at(address)
    word = np.uint64(key_hash)
    key = find_key(uint64_at(packed, 1), word)
    if key == NO_KEY:
        seed, num_blocks = uint64_at(packed, 0)[0], uint64_at(packed, 0)[1]
        return as_int64(upper_range(candidate_word(word, seed, 0), as_int64(num_blocks)))
    return block_of(
        key,
        1.0,
        int32_at(packed, 2),
        float64_at(packed, 3),
        int32_at(packed, 4),
        int32_at(packed, 5),
        int32_at(packed, 6),
        float64_at(packed, 7),
    )


class Prompt(Partitioner):
    """Blocks of equal size and cardinality from whole micro-batches; see the module's docstring.

    Example:
        >>> prompt = Prompt(2)
        >>> keys = ["hot"] * 6 + ["a", "b", "c", "d"]
        >>> prompt.partition_micro_batch(keys).tolist()  # five records and three keys in each
        [0, 0, 0, 1, 1, 1, 1, 1, 0, 0]
    """

    name = "prompt"
    config_type = PromptConfig
    traits = Traits(splits_keys=True, needs_batch=True)
    scalar_kernel = _hand_out_one
    config: PromptConfig
    _state: PromptState

    def __init__(self, num_partitions: int, config: Config | None = None) -> None:
        super().__init__(num_partitions, config)
        self.traits = replace(self.traits, uses_time=self.config.order == "count_tree")

    @property
    def num_observed(self) -> int:
        """Records of the batch being collected."""
        return int(self._state.batch.counts[micro_batch.NUM_RECORDS])

    def fit(
        self,
        key_hashes: KeyHashes,
        weights: Loads | None = None,
        timestamps_ms: TimestampsMs | None = None,
    ) -> None:
        """Plan a micro-batch whose records will be routed next; what was observed is dropped.

        Args:
            key_hashes: ``uint64[n]``, the records' keys.
            weights: ``float64[n]``, load of each; None: 1 each.
            timestamps_ms: ``int64[n]``, event times, for the tree; None: all at once.

        Raises:
            InputError: Another number of weights or timestamps.
        """
        self._drop_batch()
        self.observe(key_hashes, weights, timestamps_ms)
        self.seal()

    def observe(
        self,
        key_hashes: KeyHashes,
        weights: Loads | None = None,
        timestamps_ms: TimestampsMs | None = None,
    ) -> None:
        """Count records of the batch being collected; the plan in force stays.

        Args:
            key_hashes: See ``fit``.
            weights: See ``fit``.
            timestamps_ms: See ``fit``.

        Raises:
            InputError: Another number of weights or timestamps.
        """
        for name, values in (("weights", weights), ("timestamps", timestamps_ms)):
            if values is not None and len(values) != len(key_hashes):
                raise InputError(f"there are {len(key_hashes)} key hashes but {len(values)} {name}")
        self._observe(key_hashes, weights, timestamps_ms)

    def seal(self) -> None:
        """End the batch being collected: plan it, and begin the next."""
        state, batch = self._state, self._state.batch
        num_keys = int(batch.counts[micro_batch.NUM_KEYS])
        if self.config.order == "count_tree":
            order = count_tree.walk(state.tree.links, num_keys)
        else:
            order = micro_batch.load_order(batch.loads[:num_keys])
        state.plan = plan_blocks(
            batch,
            order,
            self.num_partitions,
            equal_blocks=self.config.equal_blocks,
            smallest_first=self.config.rests == "smallest_first",
        )
        self._bind()
        load = float(batch.loads[:num_keys].sum())
        remembered = BATCHES_REMEMBERED - 1
        state.last_loads = np.append(state.last_loads[-remembered:], load)
        state.last_keys = np.append(state.last_keys[-remembered:], float(num_keys))
        self._reset_batch()

    def partition_micro_batch(
        self,
        keys: Keys,
        timestamps_ms: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
    ) -> Partitions:
        """Cut records into blocks as one micro-batch: ``fit`` and ``partition_batch`` in one.

        Args:
            keys: See ``Partitioner.partition_batch``.
            timestamps_ms: See there.
            weights: See there.

        Returns:
            ``int32[n]``.

        Raises:
            InputError: See there.
        """
        key_hashes, is_null = hash_keys_with_nulls(keys)
        times = self._times(timestamps_ms, len(key_hashes))
        loads = None if weights is None else np.ascontiguousarray(weights, np.float64)
        if loads is not None and loads.shape != key_hashes.shape:
            raise InputError(
                f"weights must be {len(key_hashes)} values, one per key, not {loads.shape}"
            )
        out = np.empty(len(key_hashes), np.int32)
        if is_null is None:
            self.route_micro_batch(key_hashes, out, loads, times)
            return out
        keyed = np.flatnonzero(~is_null)
        routed = np.empty(len(keyed), np.int32)
        self.route_micro_batch(
            key_hashes[keyed], routed, None if loads is None else loads[keyed], times[keyed]
        )
        out[keyed] = routed
        out[is_null] = [self._next_null() for _ in range(len(out) - len(keyed))]
        return out

    def route_micro_batch(
        self,
        key_hashes: KeyHashes,
        out: Partitions,
        weights: Loads | None = None,
        timestamps_ms: TimestampsMs | None = None,
    ) -> None:
        """Cut records into blocks: ``fit`` and ``route`` in one, with one look-up per record.

        Args:
            key_hashes: ``uint64[n]``.
            out: ``int32[n]`` to fill.
            weights: ``float64[n]``, load of each record; None: 1 each.
            timestamps_ms: ``int64[n]``, for the tree.
        """
        self._drop_batch()
        numbers = self._observe(key_hashes, weights, timestamps_ms)
        self.seal()
        plan = self._state.plan
        hand_out_numbers(
            numbers,
            NO_WEIGHTS if weights is None else weights,
            plan.blocks,
            plan.loads,
            plan.following,
            plan.whole_on,
            plan.fragment,
            plan.room,
            out,
        )

    def route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,  # noqa: ARG002 - the plan was made before
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Hand out the plan in force; see ``Partitioner.route``."""
        plan = self._state.plan
        hand_out(
            key_hashes,
            NO_WEIGHTS if weights is None else weights,
            seed_word(self.config.seed),
            self.num_partitions,
            plan.table,
            plan.blocks,
            plan.loads,
            plan.following,
            plan.whole_on,
            plan.fragment,
            plan.room,
            out,
        )

    def _new_state(self) -> PromptState:
        return PromptState(
            batch=micro_batch.new_micro_batch(),
            tree=count_tree.new_count_tree(),
            plan=empty_plan(),
            last_loads=np.empty(0),
            last_keys=np.empty(0),
        )

    def _bind(self) -> None:
        self._options = np.array(
            [seed_word(self.config.seed), np.uint64(self.num_partitions)], np.uint64
        )
        plan = self._state.plan
        self._handles = handles(self._options, *vars(plan).values())

    def _drop_batch(self) -> None:
        if self.num_observed > 0:
            self._reset_batch()

    def _reset_batch(self) -> None:
        state = self._state
        num_keys = int(state.last_keys[-1]) if state.last_keys.size else 0
        state.batch = micro_batch.new_micro_batch(num_keys)
        state.tree = count_tree.new_count_tree()

    def _observe(
        self, key_hashes: KeyHashes, weights: Loads | None, timestamps_ms: TimestampsMs | None
    ) -> npt.NDArray[np.int32]:
        state, config = self._state, self.config
        loads = NO_WEIGHTS if weights is None else weights
        numbers = np.empty(len(key_hashes), np.int32)
        micro_batch.count(state.batch, key_hashes, loads, numbers)
        if config.order == "count_tree":
            tree = state.tree
            count_tree.make_room(tree, int(state.batch.counts[micro_batch.NUM_KEYS]))
            known = state.last_keys.size > 0
            count_tree.observe(
                numbers,
                np.zeros(len(numbers), np.int64) if timestamps_ms is None else timestamps_ms,
                loads,
                config.budget,
                config.batch_ms,
                float(state.last_loads.mean() if known else config.expected_records),
                float(max(1.0, state.last_keys.mean()) if known else config.expected_keys),
                *vars(tree).values(),
            )
        return numbers
