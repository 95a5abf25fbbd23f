"""Sliding without deduction: two stacks of partials, for all keys of a shard at once.

The classic queue of two stacks keeps the older half of a window as suffixes (what is left when the
oldest go one by one) and the newer half as one running prefix; a window is one combine of the two,
and when the suffixes are used up the newer half is turned into new ones. Here the turn comes at the
same window for all keys: partials are cut into *blocks* by the window they leave at, a block being
as many windows as overlap (r). In the windows of block b live partials of blocks b and b + 1 only::

    r = 3    windows   | 0  1  2 | 3  4  5 | 6 ..
    partial in [0, 3)    =======             leaves at 3: block 1
    partial in [2, 5)          =========     leaves at 5: block 1
    partial in [3, 6)             ========   leaves at 6: block 2
    window 3: the suffix of block 1 from those that leave after 3, and the prefix of block 2

All is done by scans over arrays, with about two combines for each partial when it enters, up to
four more when its block turns, and one for each of the two values it changes, so about eight in
all whatever r is. A partial that is late for its first windows is in no block; such are few, and
are combined with each value they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.aggregates import Aggregates
from pipelines.blobs import Int64s, numbers
from pipelines.lookup import count_at_or_before, differs, last_at_or_before, order_of
from pipelines.ring import NO_PEER, Changes
from pipelines.scan import fold, scan, scan_back

Bools = npt.NDArray[np.bool_]


@dataclass
class LatePartials:
    """Partials that entered later than their pane: windows [enter, exit), key ids, states."""

    enter: Int64s
    exit: Int64s
    key: Int64s
    states: Int64s

    def where(self, chosen: Bools | Int64s) -> LatePartials:
        """The chosen rows."""
        return LatePartials(
            self.enter[chosen], self.exit[chosen], self.key[chosen], self.states[:, chosen]
        )

    @classmethod
    def none(cls, num_rows: int) -> LatePartials:
        """No partials, of states of so many rows."""
        empty = np.empty(0, dtype=np.int64)
        return cls(empty, empty, empty, np.empty((num_rows, 0), dtype=np.int64))

    @classmethod
    def concat(cls, parts: Sequence[LatePartials]) -> LatePartials:
        """Put partials together; at least one part."""
        return cls(
            np.concatenate([each.enter for each in parts]),
            np.concatenate([each.exit for each in parts]),
            np.concatenate([each.key for each in parts]),
            np.concatenate([each.states for each in parts], axis=1),
        )

    def to_batch(self) -> pa.RecordBatch:
        """The partials as Arrow columns."""
        columns = [self.enter, self.exit, self.key, *self.states]
        names = [str(i) for i in range(len(columns))]
        return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> LatePartials:
        """The reverse of `to_batch`."""
        enter, exit_, key, *states = (numbers(column) for column in batch.columns)
        return cls(enter, exit_, key, np.stack(states))


class TwoStacks:
    """One batch of windows of one shard, up to `end`.

    Args:
        aggregates: Those that slide by stacks are looked at.
        windows_per_record: r, the largest number of windows a record belongs to.
        block: The block turned into suffixes last.
        front: int64[num stacked rows, num_keys], suffixes in force before these windows; set
            to those of window `end` - 1.
        back: The same for prefixes.
        due: Changes at windows before `end`.
        waiting: Changes at later windows; all of them where a block turns in these windows,
            else none. Their states are turned into suffixes in place.
        late: Late partials.
        end: The first window that stays open.
    """

    def __init__(
        self,
        aggregates: Aggregates,
        windows_per_record: int,
        *,
        block: int,
        front: Int64s,
        back: Int64s,
        due: Changes,
        waiting: Changes,
        late: LatePartials,
        end: int,
    ) -> None:
        self._r = windows_per_record
        self._block = block
        self._front, self._back = front, back
        self._due = due
        self._late = late
        self._end = end
        self._blocks = []
        self.rows: list[int] = []
        self.remembered = self.rows
        for each, rows in aggregates.stacked:
            width = rows.stop - rows.start
            here = slice(len(self.rows), len(self.rows) + width)
            self._blocks.append((each, here, np.array(each.neutral, dtype=np.int64)[:, None]))
            self.rows += range(rows.start, rows.stop)
        self.last_block = (end - 1) // self._r
        self.turns = self.last_block > block
        self._gather(waiting)
        self._values_of_items()
        self._old_suffixes()
        if self.turns:
            self._turn(waiting)

    def _gather(self, waiting: Changes) -> None:
        """The partials to scan, ordered by key and by when they leave."""
        if self.turns:
            parts = [self._due, waiting]
            leaves = [(p.peer != NO_PEER) & (p.peer < p.window) for p in parts]
            leaves = [
                mask & (p.window // self._r > self._block) & (p.peer < self._end)
                for mask, p in zip(leaves, parts, strict=True)
            ]
            key = np.concatenate([p.key[m] for p, m in zip(parts, leaves, strict=True)])
            exit_ = np.concatenate([p.window[m] for p, m in zip(parts, leaves, strict=True)])
            enter = np.concatenate([p.peer[m] for p, m in zip(parts, leaves, strict=True)])
            states = np.concatenate(
                [p.delta[self.rows][:, m] for p, m in zip(parts, leaves, strict=True)], axis=1
            )
        else:
            enters = self._due.peer > self._due.window
            key, enter = self._due.key[enters], self._due.window[enters]
            exit_ = self._due.peer[enters]
            states = self._due.delta[self.rows][:, enters]
        order = np.lexsort((enter, exit_, key))
        self._key, self._enter, self._exit = key[order], enter[order], exit_[order]
        self._states = states[:, order]

    def _values_of_items(self) -> None:
        """Prefixes, and suffixes where needed, within each key and block."""
        n = len(self._key)
        self._item_block = self._exit // self._r
        begins = differs(self._key, self._item_block)
        states = self._states.copy()
        self._prefix, self._suffix = np.empty_like(states), np.empty_like(states)
        ends = np.append(begins[1:], True)[:n]
        for each, rows, _ in self._blocks:
            block = states[rows]
            if self.turns:
                self._suffix[rows] = scan_back(each.combine, block, ends)
            elif n:
                # The prefix of earlier batches goes on.
                block[:, begins] = each.combine(
                    self._back[rows][:, self._key[begins]], block[:, begins]
                )
            self._prefix[rows] = scan(each.combine, block, begins)

    def _old_suffixes(self) -> None:
        """Suffixes stacked in earlier batches, as the partials of their block leave."""
        due = self._due
        leaves = (due.peer != NO_PEER) & (due.peer < due.window)
        leaves &= due.window // self._r == self._block
        key, window = due.key[leaves], due.window[leaves]
        order = order_of(key, window)
        self._old_key, self._old_window = key[order], window[order]
        self._old_states = due.delta[self.rows][:, leaves][:, order]

    def values(self, key: Int64s, window: Int64s) -> Int64s:
        """The states of keys in windows; see `ring.OtherValues`."""
        front = self._front_values(key, window)
        back = self._back_values(key, window)
        out = np.empty_like(front)
        for each, rows, _ in self._blocks:
            out[rows] = each.combine(front[rows], back[rows])
        self._add_late(out, key, window)
        return out

    def _front_values(self, key: Int64s, window: Int64s) -> Int64s:
        old = window // self._r == self._block
        out = self._suffix_after(key, window)
        if old.any():
            place = last_at_or_before(self._old_key, self._old_window, key[old], window[old])
            known = place >= 0
            states = self._front[:, key[old]]
            states[:, known] = self._old_states[:, place[known]]
            out[:, old] = states
        return out

    def _suffix_after(self, key: Int64s, window: Int64s) -> Int64s:
        """What is left of a key's partials in the block of a window, after those that have left."""
        out = self._neutral(len(key))
        if self.turns and len(self._key):
            # The first that leaves later stands behind the last that left by then.
            place = count_at_or_before(self._key, self._exit, key, window)
            there = np.minimum(place, len(self._key) - 1)
            found = (place < len(self._key)) & (self._key[there] == key)
            found &= self._item_block[there] == window // self._r
            out[:, found] = self._suffix[:, there[found]]
        return out

    def _back_values(self, key: Int64s, window: Int64s) -> Int64s:
        out = self._neutral(len(key))
        block = window // self._r
        if not self.turns:
            out[:] = self._back[:, key]
        place = last_at_or_before(self._key, self._enter, key, window)
        found = place >= 0
        found[found] = self._item_block[place[found]] == block[found] + 1
        out[:, found] = self._prefix[:, place[found]]
        return out

    def _add_late(self, out: Int64s, key: Int64s, window: Int64s) -> None:
        """Combine late partials with the values of the windows they belong to."""
        late = self._late
        if not len(late.key) or not len(key):
            return
        low = count_at_or_before(key, window, late.key, late.enter - 1)
        high = count_at_or_before(key, window, late.key, late.exit - 1)
        lengths = high - low
        which = np.repeat(np.arange(len(low)), lengths)
        row = np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + low[which]
        order = np.argsort(row, kind="stable")
        row, which = row[order], which[order]
        begins = differs(row)
        for each, rows, _ in self._blocks:
            more = fold(each.combine, late.states[rows][:, which], begins)
            place = row[begins]
            out[rows, place] = each.combine(out[rows, place], more)

    def _turn(self, waiting: Changes) -> None:
        """Turn the last block that begins in these windows: suffixes for those still to leave."""
        leaves = (waiting.peer != NO_PEER) & (waiting.peer < waiting.window)
        leaves &= waiting.window // self._r == self.last_block
        rows = np.flatnonzero(leaves)
        after = self._suffix_after(waiting.key[rows], waiting.window[rows])
        for row, states in zip(self.rows, after, strict=True):
            waiting.delta[row, rows] = states

    def finish(self) -> None:
        """Set the stacks to those of the last window."""
        num_keys = self._front.shape[1]
        keys = np.arange(num_keys)
        last = np.full(num_keys, self._end - 1)
        front, back = self._front_values(keys, last), self._back_values(keys, last)
        self._front[:], self._back[:] = front, back

    def _neutral(self, n: int) -> Int64s:
        return np.concatenate([np.repeat(neutral, n, axis=1) for *_, neutral in self._blocks])
