from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.aggregates import SMALLEST, Aggregates, Latest, Sum
from pipelines.ring import Changes, Runs, concat_changes, covered, partial_changes, slide

AGGREGATE = Aggregates(Sum("sum", "x"), Latest("latest", "time"))
LIMBS = 2**32
GONE = (0, 0, 0, SMALLEST)
NUM_KEYS = 4

# (exit window, windows the record is in, key, x); the time grows with the exit window.
RECORDS = st.lists(
    st.tuples(st.integers(-20, 40), st.integers(1, 9), st.integers(0, 3), st.integers(-3, 3)),
    max_size=40,
)


def changes_of(records: list[tuple[int, int, int, int]]) -> Changes:
    """The changes of single records; exits 1,000 apart in time."""
    exits = np.array([r[0] for r in records], dtype=np.int64)
    lengths = np.array([r[1] for r in records], dtype=np.int64)
    keys = np.array([r[2] for r in records], dtype=np.int64)
    measures = np.array(
        [[1, r[3] >> 32, r[3] % LIMBS, 1000 * r[0] + i] for i, r in enumerate(records)],
        dtype=np.int64,
    ).reshape(-1, 4)
    return partial_changes(exits - lengths, exits, keys, measures.T, AGGREGATE)


def first_window(due: Changes, end: int) -> int:
    return int(due.window.min(initial=end))


def naive_value(
    records: list[tuple[int, int, int, int]], window: int, key: int
) -> tuple[int, int, int, int]:
    inside = [
        (x, 1000 * exit_ + i)
        for i, (exit_, length, of, x) in enumerate(records)
        if of == key and exit_ - length <= window < exit_
    ]
    if not inside:
        return GONE
    total = sum(x for x, _ in inside)
    return (len(inside), total // LIMBS, total % LIMBS, max(time for _, time in inside))


def expand(runs: Runs) -> dict[tuple[int, int], tuple[int, ...]]:
    values = {}
    for i in range(len(runs.key)):
        for window in range(int(runs.start[i]), int(runs.end[i])):
            place = (window, int(runs.key[i]))
            assert place not in values
            values[place] = tuple(runs.value[:, i].tolist())
    return values


@given(RECORDS, st.lists(st.integers(-25, 45), max_size=4))
def test_runs_equal_the_windows_one_by_one(
    records: list[tuple[int, int, int, int]], ends: list[int]
) -> None:
    changes = changes_of(records)
    totals = np.repeat(AGGREGATE.neutral(), NUM_KEYS, axis=1)
    first: int | None = None
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    before: dict[int, tuple[int, ...]] = {}
    for end in [*sorted(ends), 45]:
        due = changes.where(changes.window < end)
        changes = changes.where(changes.window >= end)
        start_at = first_window(due, end) if first is None else first
        runs = slide(totals, due, start_at, end, AGGREGATE)
        assert (runs.start < runs.end).all()
        for i in range(len(runs.key)):
            key, start = int(runs.key[i]), int(runs.start[i])
            value = tuple(runs.value[:, i].tolist())
            last = found.get((start - 1, key), GONE)
            assert bool(runs.changed[i]) == (value != last)
            found |= {(w, key): value for w in range(start, int(runs.end[i])) if value[0]}
        if first is not None or len(due.window):
            first = end
        before = {key: tuple(totals[:, key].tolist()) for key in range(NUM_KEYS)}
    expected = {
        (window, key): value
        for window in range(-40, 45)
        for key in range(NUM_KEYS)
        if (value := naive_value(records, window, key))[0]
    }
    assert found == expected
    assert before == {key: naive_value(records, 44, key) for key in range(NUM_KEYS)}


@given(RECORDS)
def test_covered_windows_are_those_with_a_key(records: list[tuple[int, int, int, int]]) -> None:
    totals = np.repeat(AGGREGATE.neutral(), NUM_KEYS, axis=1)
    changes = changes_of(records)
    runs = slide(totals, changes, first_window(changes, 50), 50, AGGREGATE)
    stretches = covered(runs)
    found = {window for start, end in stretches for window in range(start, end)}
    assert found == {window for window, _ in expand(runs.live())}
    assert stretches == sorted(stretches)
    assert all(a[1] < b[0] for a, b in pairwise(stretches))


def test_a_gap_of_a_billion_windows_is_one_step() -> None:
    records = [(0, 3, 0, 1), (10**9, 3, 0, 1)]
    totals = np.repeat(AGGREGATE.neutral(), NUM_KEYS, axis=1)
    runs = slide(totals, changes_of(records), -3, 2**61, AGGREGATE)
    live = runs.live()
    assert list(zip(live.start.tolist(), live.end.tolist(), strict=True)) == [
        (-3, 0),
        (10**9 - 3, 10**9),
    ]
    assert covered(runs) == [(-3, 0), (10**9 - 3, 10**9)]


def test_keys_and_windows_too_far_apart_for_one_integer_still_sort() -> None:
    aggregate = Aggregates()
    window = np.array([-(2**61), 2**61, -(2**61), 2**61])
    key = np.array([1, 1, 0, 0])
    changes = Changes(window, key, np.array([[2, -2, 5, -5]]), np.zeros(4, dtype=np.int64))
    totals = np.zeros((1, 2), dtype=np.int64)
    runs = slide(totals, changes, -(2**61), 2**61 + 1, aggregate).live()
    assert runs.key.tolist() == [0, 1]
    assert runs.value.tolist() == [[5, 2]]


def test_no_changes_and_no_totals_give_no_runs() -> None:
    runs = slide(np.zeros((4, 0), dtype=np.int64), concat_changes([], 4), 5, 9, AGGREGATE)
    assert len(runs.key) == 0
    assert covered(runs) == []
