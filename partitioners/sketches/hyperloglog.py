"""HyperLogLog: how many distinct keys, in fixed memory, over a sliding window.

A register remembers the longest run of zeros among the hashes that fell to it; many distinct keys
make long runs likely, so the registers together tell how many there were, to about
1.04 / sqrt(4096) = 1.6 %. Adding a key twice changes nothing.

Paper: Flajolet, Fusy, Gandouet, Meunier: HyperLogLog, AofA 2007, Fig. 3, with its correction for
small counts (linear counting up to 2.5 registers); no large-range correction, as hashes have 64
bits. Over a window: for each register and rank we keep the last pane that rank was seen in, the
idea of Chabchoub, Hebrail: Sliding HyperLogLog, ICDMW 2010, with a table of ranks in place of a
list, so memory is fixed. The estimate is then exactly that of a fresh sketch over the live panes.

| symbol | here |
|---|---|
| m | `NUM_REGISTERS` = 4096, as Katsipoulakis et al. 2017, section 5.1 |
| M[j] | `registers[sketch * m + j]`, at most 31 (five bits) |
| Z | 1 / `harmonic[sketch]`, kept up to date, so an estimate is O(1) |
| V | `zeros[sketch]` |

Cost: O(1) per key; O(registers) per sketch when a pane opens. Memory: 4 kB per sketch, and
541 kB more where there are several panes, however many they are and however many keys.
Not for: few keys (below some thousand an exact set is smaller), or asking whether a key was seen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing, borrowing_step
from partitioners.hashing import mix64

INDEX_BITS = 12
NUM_REGISTERS = 1 << INDEX_BITS
MAX_RANK = 31
NUM_RANKS = MAX_RANK + 1
_ALPHA = 0.7213 / (1 + 1.079 / NUM_REGISTERS)
_LINEAR_COUNTING_BELOW = 2.5 * NUM_REGISTERS

_POWERS = np.exp2(-np.arange(MAX_RANK + 1.0))
_INDEX_SHIFT = np.uint64(64 - INDEX_BITS)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_ODD = np.uint64(0xD6E8FEB86659FD93)


class Sketches(NamedTuple):
    """The sketches of `n` partitions; one is as good as many."""

    registers: npt.NDArray[
        np.uint8
    ]  # [n * NUM_REGISTERS], longest run of zeros + 1 in the live panes
    zeros: npt.NDArray[np.float64]  # [n], registers at 0
    harmonic: npt.NDArray[
        np.float64
    ]  # [n], sum of 2**-register; exact, its terms are multiples of 2**-31
    estimates: npt.NDArray[np.float64]  # [n], distinct keys
    top_panes: npt.NDArray[
        np.int32
    ]  # [n * NUM_REGISTERS], pane the register's value was last seen in
    rank_panes: npt.NDArray[np.int32]  # [n * NUM_REGISTERS * NUM_RANKS], the same for lower ranks


def new_sketches(num_sketches: int, num_panes: int = 1) -> Sketches:
    """Return empty sketches over a window of `num_panes` panes; of one pane, without stamps."""
    stamped = num_sketches if num_panes > 1 else 0
    sketches = Sketches(
        registers=np.zeros(num_sketches * NUM_REGISTERS, np.uint8),
        zeros=np.zeros(num_sketches),
        harmonic=np.zeros(num_sketches),
        estimates=np.zeros(num_sketches),
        top_panes=np.zeros(stamped * NUM_REGISTERS, np.int32),
        rank_panes=np.zeros(stamped * NUM_REGISTERS * NUM_RANKS, np.int32),
    )
    clear(sketches)
    return sketches


@borrowing
def clear(sketches: Sketches) -> None:
    """Forget every key."""
    sketches.registers[:] = 0
    sketches.zeros[:] = NUM_REGISTERS
    sketches.harmonic[:] = NUM_REGISTERS
    sketches.estimates[:] = 0.0
    sketches.top_panes[:] = 0
    sketches.rank_panes[:] = 0


@borrowing_step
def _estimate(sketches: Sketches, sketch: int) -> float:
    raw = _ALPHA * NUM_REGISTERS * NUM_REGISTERS / sketches.harmonic[sketch]
    zeros = sketches.zeros[sketch]
    if raw <= _LINEAR_COUNTING_BELOW and zeros > 0.0:
        return float(NUM_REGISTERS * np.log(NUM_REGISTERS / zeros))
    return float(raw)


@borrowing_step
def _set_register(sketches: Sketches, sketch: int, register: int, rank: int) -> None:
    before = sketches.registers[register]
    sketches.registers[register] = rank
    sketches.harmonic[sketch] += _POWERS[rank] - _POWERS[before]
    sketches.zeros[sketch] += (1.0 if rank == 0 else 0.0) - (1.0 if before == 0 else 0.0)


@borrowing_step
def add_hash(sketches: Sketches, sketch: int, key_hash: np.uint64, pane: int) -> None:
    """Count a key, seen in `pane`, in one of the sketches.

    Args:
        sketches: The sketches.
        sketch: Which of them.
        key_hash: The key's 64-bit hash.
        pane: Number of the pane of now, at least 1; of no matter where there is one pane.
    """
    # The partition was chosen by mix64 of the hash plus a constant. The same bits here would leave
    # a sketch the registers of its partition alone (1,379 for 6,500 keys), so multiply first.
    mixed = mix64(key_hash * _ODD)
    register = sketch * NUM_REGISTERS + int(np.int64(mixed >> _INDEX_SHIFT))
    rank = 1
    while rank < MAX_RANK and mixed & _ONE == _ZERO:
        mixed >>= _ONE
        rank += 1
    top = int(np.int64(sketches.registers[register]))
    stamped = sketches.top_panes.size > 0
    if rank > top:
        if stamped:
            sketches.rank_panes[register * NUM_RANKS + top] = sketches.top_panes[register]
            sketches.top_panes[register] = pane
        _set_register(sketches, sketch, register, rank)
        sketches.estimates[sketch] = _estimate(sketches, sketch)
    elif stamped:
        if rank == top:
            sketches.top_panes[register] = pane
        else:
            sketches.rank_panes[register * NUM_RANKS + rank] = pane


@borrowing
def expire_panes(sketches: Sketches, oldest_pane: int) -> None:
    """Forget what was last seen before `oldest_pane`; sketches of several panes only."""
    for sketch in range(sketches.zeros.size):
        changed = False
        for register in range(sketch * NUM_REGISTERS, (sketch + 1) * NUM_REGISTERS):
            pane = int(sketches.top_panes[register])
            rank = int(np.int64(sketches.registers[register]))
            if pane >= oldest_pane or rank == 0:
                continue
            while rank > 0 and pane < oldest_pane:
                rank -= 1
                pane = int(sketches.rank_panes[register * NUM_RANKS + rank])
            sketches.top_panes[register] = pane
            _set_register(sketches, sketch, register, rank)
            changed = True
        if changed:
            sketches.estimates[sketch] = _estimate(sketches, sketch)


@borrowing
def _add_hashes(sketches: Sketches, key_hashes: npt.NDArray[np.uint64], pane: int) -> None:
    for i in range(key_hashes.size):
        add_hash(sketches, 0, key_hashes[i], pane)


class HyperLogLog:
    """One sketch by itself, over everything or over the last `num_panes` panes.

    Args:
        num_panes: Panes of the sliding window; 1 forgets everything at each `next_pane`.

    Example:
        >>> import numpy as np
        >>> sketch = HyperLogLog()
        >>> sketch.add(np.arange(100_000, dtype=np.uint64))
        >>> 96_000 < sketch.estimate() < 104_000
        True
    """

    def __init__(self, num_panes: int = 1) -> None:
        self._num_panes = num_panes
        self._pane = 1
        self._sketches = new_sketches(1, num_panes)

    def add(self, key_hashes: npt.NDArray[np.uint64]) -> None:
        """Count keys by their 64-bit hashes, uint64[n]."""
        _add_hashes(self._sketches, key_hashes, self._pane)

    def next_pane(self) -> None:
        """Open a pane and forget the oldest."""
        self._pane += 1
        if self._num_panes == 1:
            clear(self._sketches)
        else:
            expire_panes(self._sketches, self._pane - self._num_panes + 1)

    def estimate(self) -> float:
        """Return how many distinct keys the live panes hold, to about 1.6 %."""
        return float(self._sketches.estimates[0])

    @property
    def state_bytes(self) -> int:
        """Bytes held; they never change."""
        return sum(array.nbytes for array in self._sketches)
