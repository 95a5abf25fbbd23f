"""Which blocks a micro-batch's keys go to (Prompt's Algorithm 2), and the handing out of records.

    capacity of a block   records / blocks               cut-off   records / keys
    1 cut     of each key above the cut-off, a fragment of that size goes to the next block
    2 zigzag  the other keys are dealt whole, one to a block, the order reversed after each pass
    3 trim    a block over its capacity gives back what is too much of its heaviest key
    4 rest    what is left of a cut key fills its own block, then best fit, then where most is free

A key's *fragments* are a chain: the first has the key's own number, those of step 4 follow. Records
of a key fill them in order, so a fragment is a run of the key's records as they arrived.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing, borrowing_step
from partitioners._jit import as_int64, inlined, kernel
from partitioners.base import KeyHashes, Loads, Partitions
from partitioners.hashing import candidate_word, upper_range
from partitioners.micro_batch import IS_WEIGHTED, NO_KEY, NUM_KEYS, MicroBatch, find_key

NO_FRAGMENT = -1
SPLIT = -1


@dataclass
class BlockPlan:
    """A sealed micro-batch: k keys in f fragments, and how far each key has been handed out."""

    table: npt.NDArray[np.uint64]  # of ``MicroBatch``: key hash to key number
    blocks: npt.NDArray[np.int32]  # int32[f]: block of each fragment
    loads: npt.NDArray[np.float64]  # float64[f]: load planned for it
    following: npt.NDArray[np.int32]  # int32[f]: next fragment of the key, or NO_FRAGMENT
    whole_on: npt.NDArray[np.int32]  # int32[k]: block of a key with one fragment, or SPLIT
    fragment: npt.NDArray[np.int32]  # int32[k]: the one being filled
    room: npt.NDArray[np.float64]  # float64[k]: load it still takes


def empty_plan() -> BlockPlan:
    """Make the plan of no records."""
    return BlockPlan(
        table=np.zeros(1, np.uint64),
        blocks=np.empty(0, np.int32),
        loads=np.empty(0),
        following=np.empty(0, np.int32),
        whole_on=np.empty(0, np.int32),
        fragment=np.empty(0, np.int32),
        room=np.empty(0),
    )


def plan_blocks(
    batch: MicroBatch,
    order: npt.NDArray[np.int32],
    num_blocks: int,
    *,
    equal_blocks: bool,
    smallest_first: bool,
) -> BlockPlan:
    """Assign the keys of a micro-batch to blocks.

    Args:
        batch: The micro-batch; its table becomes the plan's.
        order: ``int32[k]``, its keys in (nearly) falling order of load.
        num_blocks: Number of blocks.
        equal_blocks: Whether step 3 is done.
        smallest_first: Whether step 4 begins with the smallest rest.

    Returns:
        The plan.
    """
    num_keys = int(batch.counts[NUM_KEYS])
    key_loads = batch.loads[:num_keys]
    whole = batch.counts[IS_WEIGHTED] == 0
    blocks, loads, following, num_fragments = _assign(
        key_loads, order, num_blocks, whole, equal_blocks, smallest_first
    )
    following = following[:num_fragments]
    whole_on = np.where(following[:num_keys] == NO_FRAGMENT, blocks[:num_keys], np.int32(SPLIT))
    return BlockPlan(
        table=batch.table,
        blocks=blocks[:num_fragments].copy(),
        loads=loads[:num_fragments].copy(),
        following=following.copy(),
        whole_on=whole_on,
        fragment=np.arange(num_keys, dtype=np.int32),
        room=loads[:num_keys].copy(),
    )


@kernel
def _assign(
    key_loads: Loads,
    order: npt.NDArray[np.int32],
    num_blocks: int,
    whole: bool,
    equal_blocks: bool,
    smallest_first: bool,
) -> tuple[Partitions, Loads, Partitions, int]:
    num_keys = key_loads.size
    free, cut = _capacities(key_loads, num_blocks, whole)
    capacity_of_parts = num_keys + num_keys + 2 * num_blocks  # no key leaves more than one part
    blocks = np.empty(capacity_of_parts, np.int32)
    loads = np.zeros(capacity_of_parts, np.float64)
    following = np.full(capacity_of_parts, NO_FRAGMENT, np.int32)
    rests = np.zeros(num_keys, np.float64)
    with_rest = np.empty(num_keys, np.int32)
    num_rests = _deal(key_loads, order, cut, free, blocks, loads, rests, with_rest)
    if equal_blocks:
        num_rests = _trim(num_keys, blocks, free, loads, rests, with_rest, num_rests)
    num_fragments = num_keys
    for index in range(num_rests):
        key = as_int64(with_rest[num_rests - 1 - index if smallest_first else index])
        num_fragments = _place_rest(key, rests[key], num_fragments, free, blocks, loads, following)
    return blocks, loads, following, num_fragments


@inlined
def _capacities(
    key_loads: Loads, num_blocks: int, whole: bool
) -> tuple[npt.NDArray[np.float64], float]:
    """Give the room of each block and the split cut-off; both whole where loads are records."""
    total = key_loads.sum()
    capacity = total / num_blocks
    cut = min(capacity, total / max(1, key_loads.size))
    if not whole:
        return np.full(num_blocks, capacity), cut
    free = np.full(num_blocks, np.floor(capacity))
    free[: as_int64(total - free.sum())] += 1.0
    return free, max(1.0, np.floor(cut))


@inlined
def _deal(
    key_loads: Loads,
    order: npt.NDArray[np.int32],
    cut: float,
    free: npt.NDArray[np.float64],
    blocks: Partitions,
    loads: Loads,
    rests: Loads,
    with_rest: npt.NDArray[np.int32],
) -> int:
    """Steps 1 and 2; returns how many keys have a rest."""
    num_blocks = free.size
    num_rests = 0
    for key in order:
        if key_loads[key] > cut:
            block = num_rests % num_blocks
            blocks[key], loads[key] = block, cut
            free[block] -= cut
            rests[key] = key_loads[key] - cut
            with_rest[num_rests] = key
            num_rests += 1
    dealt = num_rests  # the pass that step 1 left unfinished is finished first
    for key in order:
        if key_loads[key] <= cut:
            turn = dealt // num_blocks - num_rests // num_blocks
            block = dealt % num_blocks
            if turn % 2 == 1:
                block = num_blocks - 1 - block
            blocks[key], loads[key] = block, key_loads[key]
            free[block] -= key_loads[key]
            dealt += 1
    return num_rests


@inlined
def _trim(
    num_keys: int,
    blocks: Partitions,
    free: npt.NDArray[np.float64],
    loads: Loads,
    rests: Loads,
    with_rest: npt.NDArray[np.int32],
    num_rests: int,
) -> int:
    """Step 3. One key per block is enough: m keys of at most the cut-off exceed by less than it."""
    heaviest = np.full(free.size, NO_KEY, np.int64)
    for key in range(num_keys):
        block = blocks[key]
        if heaviest[block] == NO_KEY or loads[key] > loads[heaviest[block]]:
            heaviest[block] = key
    for block in range(free.size):
        if free[block] < 0.0:
            key = heaviest[block]
            excess = min(-free[block], loads[key])
            if rests[key] == 0.0:
                with_rest[num_rests] = key
                num_rests += 1
            loads[key] -= excess
            rests[key] += excess
            free[block] += excess
    return num_rests


@inlined
def _place_rest(
    key: int,
    rest: float,
    num_fragments: int,
    free: npt.NDArray[np.float64],
    blocks: Partitions,
    loads: Loads,
    following: npt.NDArray[np.int32],
) -> int:
    """Step 4 for one key; returns how many fragments there are now."""
    own = blocks[key]
    here = min(rest, max(0.0, free[own]))
    loads[key] += here
    free[own] -= here
    rest -= here
    last = key
    while rest > 0.0:
        block, fits = _best_fit(rest, free)
        part = rest if fits else free[block]
        if part <= 0.0:  # rounding of weights only: what is left is less than any record
            loads[last] += rest
            break
        blocks[num_fragments], loads[num_fragments] = block, part
        following[last] = num_fragments
        last = num_fragments
        num_fragments += 1
        free[block] -= part
        rest -= part
    return num_fragments


@inlined
def _best_fit(rest: float, free: npt.NDArray[np.float64]) -> tuple[int, bool]:
    """Find the block with the least room that holds the rest; if none does, the one with most."""
    best, most = -1, 0
    for block in range(free.size):
        if free[block] >= rest and (best < 0 or free[block] < free[best]):
            best = block
        if free[block] > free[most]:
            most = block
    return (best, True) if best >= 0 else (most, False)


@borrowing_step
def _next_block(
    key: int,
    load: float,
    blocks: Partitions,
    loads: Loads,
    following: npt.NDArray[np.int32],
    fragment: npt.NDArray[np.int32],
    room: npt.NDArray[np.float64],
) -> int:
    """Hand out one record of a split key: to the fragment in which the middle of its load lies."""
    while room[key] < 0.5 * load:
        after = following[fragment[key]]
        if after == NO_FRAGMENT:  # more than planned: the fragments once more, in proportion
            fragment[key], room[key] = key, loads[key]
            break
        fragment[key] = after
        room[key] += loads[after]
    room[key] -= load
    return as_int64(blocks[fragment[key]])


@borrowing_step
def block_of(
    key: int,
    load: float,
    blocks: Partitions,
    loads: Loads,
    following: npt.NDArray[np.int32],
    whole_on: npt.NDArray[np.int32],
    fragment: npt.NDArray[np.int32],
    room: npt.NDArray[np.float64],
) -> int:
    """Give the block of a key's next record, by the key's number."""
    block = as_int64(whole_on[key])
    if block == SPLIT:
        block = _next_block(key, load, blocks, loads, following, fragment, room)
    return block


@borrowing
def hand_out_numbers(
    numbers: npt.NDArray[np.int32],
    weights: Loads,
    blocks: Partitions,
    loads: Loads,
    following: npt.NDArray[np.int32],
    whole_on: npt.NDArray[np.int32],
    fragment: npt.NDArray[np.int32],
    room: npt.NDArray[np.float64],
    out: Partitions,
) -> None:
    """Fill ``out`` for records given by their keys' numbers: the batch was counted just now."""
    for row in range(numbers.size):
        key = as_int64(numbers[row])
        load = weights[row] if weights.size > 0 else 1.0
        out[row] = block_of(key, load, blocks, loads, following, whole_on, fragment, room)


@borrowing
def hand_out(
    key_hashes: KeyHashes,
    weights: Loads,
    seed: np.uint64,
    num_blocks: int,
    table: npt.NDArray[np.uint64],
    blocks: Partitions,
    loads: Loads,
    following: npt.NDArray[np.int32],
    whole_on: npt.NDArray[np.int32],
    fragment: npt.NDArray[np.int32],
    room: npt.NDArray[np.float64],
    out: Partitions,
) -> None:
    """Fill ``out`` for records given by key hash; a key that is not in the plan goes home."""
    for row in range(key_hashes.size):
        key = find_key(table, key_hashes[row])
        if key == NO_KEY:
            out[row] = upper_range(candidate_word(key_hashes[row], seed, 0), num_blocks)
            continue
        load = weights[row] if weights.size > 0 else 1.0
        out[row] = block_of(key, load, blocks, loads, following, whole_on, fragment, room)
