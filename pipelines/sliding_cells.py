"""Compiled passes over sliding multisets of values: estimates of distinct values, top values.

Both go through the cells (key, value) of a shard and the events that change their counts, key by
key and window by window, as `order_statistics` does.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from partitioners.hashing import mix64

Int64s = npt.NDArray[np.int64]

RANK_BITS = 6
_RANK_MASK = (1 << RANK_BITS) - 1
# Zero and the smallest numbers must not be their own hashes.
_ODD = np.uint64(0x9E3779B97F4A7C15)
_ALPHA = 0.5 / np.log(2.0)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def register_codes(values: Int64s, index_bits: int, out: Int64s) -> None:
    """Hash values to HyperLogLog registers.

    Args:
        values: int64[n]
        index_bits: Bits of a register's number.
        out: int64[n], `register << RANK_BITS | rank`; the rank is 1 and the zeros behind the index.
    """
    for i in range(values.size):
        word = mix64((np.uint64(values[i]) + np.uint64(1)) * _ODD)
        rank = 1
        rest = word >> np.uint64(index_bits)
        while rank < 65 - index_bits and rest & np.uint64(1) == np.uint64(0):
            rest >>= np.uint64(1)
            rank += 1
        register = np.int64(word & np.uint64((1 << index_bits) - 1))
        out[i] = (register << RANK_BITS) | rank


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _estimate(histogram: Int64s, num_registers: int, last_rank: int) -> float:
    """How many distinct values registers tell of: O. Ertl, arXiv:1702.01284, algorithm 6."""
    if histogram[0] == num_registers:
        return 0.0
    z = 0.0
    x = 1.0 - histogram[last_rank] / num_registers
    if 0.0 < x < 1.0:
        y, z = 1.0, 1.0 - x
        before = -1.0
        while before != z:
            x = np.sqrt(x)
            before = z
            y *= 0.5
            z -= (1.0 - x) ** 2 * y
        z *= num_registers / 3.0
    for rank in range(last_rank - 1, 0, -1):
        z = 0.5 * (z + histogram[rank])
    x = histogram[0] / num_registers
    y, sigma = 1.0, x
    before = -1.0
    while before != sigma:
        x *= x
        before = sigma
        sigma += x * y
        y += y
    return float(_ALPHA * num_registers * num_registers / (z + num_registers * sigma))


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def distinct_estimates(
    cell_key: Int64s,
    cell_value: Int64s,
    cell_count: Int64s,
    event_cell: Int64s,
    event_window: Int64s,
    event_delta: Int64s,
    row_key: Int64s,
    row_window: Int64s,
    index_bits: int,
    out: Int64s,
) -> None:
    """Estimate the number of distinct values, for HyperLogLog registers by key as they change.

    Args:
        cell_key: int64[m], keys, ordered by key and value.
        cell_value: int64[m], `register << RANK_BITS | rank` of hashed values.
        cell_count: int64[m], records before the first event; changed.
        event_cell: int64[e], index of the cell an event changes; ordered by key, then window.
        event_window: int64[e]
        event_delta: int64[e]
        row_key: int64[r], keys asked for, ordered by key, then window.
        row_window: int64[r], the answer holds all events up to this window.
        index_bits: Bits of a register's number.
        out: int64[r], the estimates, rounded; left alone where there is no value.
    """
    num_cells, num_events, num_rows = cell_key.size, event_cell.size, row_key.size
    num_registers, last_rank = 1 << index_bits, 65 - index_bits
    cell, event, row = 0, 0, 0
    histogram = np.zeros(66, np.int64)
    while cell < num_cells:
        key, first = cell_key[cell], cell
        histogram[:] = 0
        histogram[0] = num_registers
        # The largest rank of a register is that of its last live cell.
        register, top = np.int64(-1), np.int64(0)
        while cell < num_cells and cell_key[cell] == key:
            if cell_value[cell] >> RANK_BITS != register:
                register, top = cell_value[cell] >> RANK_BITS, np.int64(0)
            if cell_count[cell] > 0:
                histogram[top] -= 1
                top = cell_value[cell] & _RANK_MASK
                histogram[top] += 1
            cell += 1
        while row < num_rows and row_key[row] < key:
            row += 1
        while True:
            more = event < num_events and event_cell[event] < cell
            here = row < num_rows and row_key[row] == key
            if more and (not here or event_window[event] <= row_window[row]):
                place = event_cell[event]
                before = cell_count[place]
                cell_count[place] += event_delta[event]
                event += 1
                if (before > 0) == (cell_count[place] > 0):
                    continue
                register = cell_value[place] >> RANK_BITS
                rank = cell_value[place] & _RANK_MASK
                above = place + 1
                hidden = False
                while above < cell and cell_value[above] >> RANK_BITS == register:
                    if cell_count[above] > 0:
                        hidden = True
                        break
                    above += 1
                if hidden:
                    continue
                below = place - 1
                rest = np.int64(0)
                while below >= first and cell_value[below] >> RANK_BITS == register:
                    if cell_count[below] > 0:
                        rest = cell_value[below] & _RANK_MASK
                        break
                    below -= 1
                if cell_count[place] > 0:
                    histogram[rest] -= 1
                    histogram[rank] += 1
                else:
                    histogram[rank] -= 1
                    histogram[rest] += 1
            elif here:
                if histogram[0] < num_registers:
                    out[row] = np.int64(np.rint(_estimate(histogram, num_registers, last_rank)))
                row += 1
            else:
                break


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _comes_before(count: int, value: int, other_count: int, other_value: int) -> bool:
    """Whether one value stands above another: the more frequent, then the smaller."""
    return count > other_count or (count == other_count and value < other_value)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fill_members(
    cell_value: Int64s, cell_count: Int64s, first: int, end: int, members: Int64s, room: int
) -> int:
    """Put the `room` highest live cells of [first, end) into `members`; gives their number."""
    n = 0
    for place in range(first, end):
        if cell_count[place] <= 0:
            continue
        if n == room and not _comes_before(
            cell_count[place],
            cell_value[place],
            cell_count[members[n - 1]],
            cell_value[members[n - 1]],
        ):
            continue
        at = n if n < room else n - 1
        n = at + 1
        while at > 0 and _comes_before(
            cell_count[place],
            cell_value[place],
            cell_count[members[at - 1]],
            cell_value[members[at - 1]],
        ):
            members[at] = members[at - 1]
            at -= 1
        members[at] = place
    return n


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def top_values(
    cell_key: Int64s,
    cell_value: Int64s,
    cell_count: Int64s,
    event_cell: Int64s,
    event_window: Int64s,
    event_delta: Int64s,
    row_key: Int64s,
    row_window: Int64s,
    k: int,
    out: Int64s,
) -> None:
    """Find the k most frequent values of sliding multisets.

    Some more than k values are *members*, kept in order. No other value stands above the *floor*,
    the lowest member when the members were last looked for; so while k members stand at or above
    it they are the top, and else the members are looked for anew.

    Args:
        cell_key: See `distinct_estimates`.
        cell_value: int64[m], the values.
        cell_count: See `distinct_estimates`.
        event_cell: See `distinct_estimates`.
        event_window: See `distinct_estimates`.
        event_delta: See `distinct_estimates`.
        row_key: See `distinct_estimates`.
        row_window: See `distinct_estimates`.
        k: How many.
        out: int64[2 k, r]: value and count by place; left alone where there are fewer.
    """
    num_cells, num_events, num_rows = cell_key.size, event_cell.size, row_key.size
    room = 3 * k + 16
    members = np.empty(room + 1, np.int64)
    is_member = np.zeros(num_cells, np.bool_)
    cell, event, row = 0, 0, 0
    while cell < num_cells:
        key, first = cell_key[cell], cell
        while cell < num_cells and cell_key[cell] == key:
            cell += 1
        while row < num_rows and row_key[row] < key:
            row += 1
        n = -1  # not looked for yet
        floor_count, floor_value = np.int64(0), np.int64(0)
        while True:
            more = event < num_events and event_cell[event] < cell
            here = row < num_rows and row_key[row] == key
            if more and (not here or event_window[event] <= row_window[row]):
                place = event_cell[event]
                cell_count[place] += event_delta[event]
                event += 1
                if n < 0 or is_member[place] or cell_count[place] <= 0:
                    continue
                if floor_count == 0 or _comes_before(
                    cell_count[place], cell_value[place], floor_count, floor_value
                ):
                    if n == room:
                        n = -1
                    else:
                        members[n] = place
                        is_member[place] = True
                        n += 1
            elif here:
                if n >= 0:
                    for i in range(1, n):
                        place, at = members[i], i
                        while at > 0 and _comes_before(
                            cell_count[place],
                            cell_value[place],
                            cell_count[members[at - 1]],
                            cell_value[members[at - 1]],
                        ):
                            members[at] = members[at - 1]
                            at -= 1
                        members[at] = place
                    if floor_count > 0 and (
                        n < k
                        or _comes_before(
                            floor_count,
                            floor_value,
                            cell_count[members[k - 1]],
                            cell_value[members[k - 1]],
                        )
                    ):
                        n = -1
                if n < 0:
                    is_member[first:cell] = False
                    n = _fill_members(cell_value, cell_count, first, cell, members, room)
                    for i in range(n):
                        is_member[members[i]] = True
                    floor_count = np.int64(0)
                    if n == room:
                        floor_count = cell_count[members[n - 1]]
                        floor_value = cell_value[members[n - 1]]
                for i in range(min(k, n)):
                    if cell_count[members[i]] > 0:
                        out[2 * i, row] = cell_value[members[i]]
                        out[2 * i + 1, row] = cell_count[members[i]]
                row += 1
            else:
                break


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def expand_cells(
    cell_key: Int64s,
    cell_value: Int64s,
    cell_count: Int64s,
    event_cell: Int64s,
    event_window: Int64s,
    event_delta: Int64s,
    row_key: Int64s,
    row_window: Int64s,
    lengths: Int64s,
    out: Int64s,
) -> None:
    """List the values of sliding multisets, ascending.

    Args:
        cell_key: See `distinct_estimates`.
        cell_value: int64[m], the values.
        cell_count: See `distinct_estimates`.
        event_cell: See `distinct_estimates`.
        event_window: See `distinct_estimates`.
        event_delta: See `distinct_estimates`.
        row_key: See `distinct_estimates`.
        row_window: See `distinct_estimates`.
        lengths: int64[r], set to the lengths of the lists.
        out: int64[sum of lengths], set to the lists one after the other; empty: lengths only.
    """
    num_cells, num_events, num_rows = cell_key.size, event_cell.size, row_key.size
    cell, event, row, at = 0, 0, 0, 0
    while cell < num_cells:
        key, first, total = cell_key[cell], cell, 0
        while cell < num_cells and cell_key[cell] == key:
            total += cell_count[cell]
            cell += 1
        while row < num_rows and row_key[row] < key:
            row += 1
        while True:
            more = event < num_events and event_cell[event] < cell
            here = row < num_rows and row_key[row] == key
            if more and (not here or event_window[event] <= row_window[row]):
                cell_count[event_cell[event]] += event_delta[event]
                total += event_delta[event]
                event += 1
            elif here:
                lengths[row] = total
                if out.size:
                    for place in range(first, cell):
                        for _ in range(cell_count[place]):
                            out[at] = cell_value[place]
                            at += 1
                row += 1
            else:
                break
