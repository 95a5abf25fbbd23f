"""Every aggregate, alone and through combiner, reducers and writers, against plain Python."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import Engine, Row, deal, out_of_order

from partitioners.errors import InputError, RunError
from pipelines import wide
from pipelines.aggregates import (
    Aggregate,
    Aggregates,
    Distinct,
    First,
    Int64s,
    Last,
    Max,
    Mean,
    Median,
    Min,
    Quantile,
    Sum,
    Variance,
)
from pipelines.lists import Collect
from pipelines.panes import Windows
from pipelines.punctuation import END_MS, MAGIC, decode_watermark, encode_watermark
from pipelines.scan import fold, scan, scan_back
from pipelines.workloads import KeyedSum

MOD = 1_000_003


class Product(Aggregate):
    """A user's own: the product of x modulo a prime; it cannot be deducted."""

    neutral = (1,)

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        return [columns["x"] % MOD]

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        return a * b % MOD


class Everything(KeyedSum):
    """All aggregates over `ts,key,x`."""

    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("count", pa.int64()),
        pa.field("sum", pa.decimal128(38, 0)),
        pa.field("mean", pa.float64()),
        pa.field("variance", pa.float64()),
        pa.field("population", pa.float64()),
        pa.field("min", pa.int64()),
        pa.field("max", pa.int64()),
        pa.field("first", pa.int64()),
        pa.field("last", pa.int64()),
        pa.field("product", pa.int64()),
        pa.field("median", pa.float64()),
        pa.field("decile", pa.float64()),
        pa.field("distinct", pa.int64()),
        pa.field("values", pa.list_(pa.int64())),
    )
    aggregates: ClassVar[Aggregates] = Aggregates(
        Sum("sum", "x"),
        Mean("mean", "x", scale=100),
        Variance("variance", "x"),
        Variance("population", "x", scale=10, sample=False),
        Min("min", "x"),
        Max("max", "x"),
        First("first", "x"),
        Last("last", "x"),
        Product("product"),
        Median("median", "x"),
        Quantile("decile", "x", 0.9, scale=10),
        Distinct("distinct", "x"),
        Collect("values", "x"),
    )


def naive_values(records: list[tuple[int, int]]) -> dict[str, Any]:
    """The values of one window and key from its (time, x)."""
    xs = [x for _, x in records]
    product = 1
    for x in xs:
        product = product * x % MOD
    spread = statistics.variance(map(Fraction, xs)) if len(xs) > 1 else None
    return {
        "count": len(xs),
        "sum": Decimal(sum(xs)),
        "mean": sum(xs) / (100 * len(xs)),
        "variance": None if spread is None else float(spread),
        "population": float(statistics.pvariance(map(Fraction, xs)) / 100),
        "min": min(xs),
        "max": max(xs),
        "first": min(records)[1],
        "last": max(records)[1],
        "product": product,
        "median": naive_quantile(xs, 0.5),
        "decile": naive_quantile(xs, 0.9) / 10,
        "distinct": len(set(xs)),
        "values": sorted(xs),
    }


def naive_quantile(xs: list[int], quantile: float) -> float:
    """As SQL's `quantile_cont`: between two neighbours, by the part of a place."""
    xs = sorted(xs)
    place = quantile * (len(xs) - 1)
    low, high = math.floor(place), math.ceil(place)
    return xs[low] + (xs[high] - xs[low]) * (place - low)


def naive_windows(
    partitions: list[list[Row]], size_ms: int, slide_ms: int
) -> dict[tuple[int, bytes | None], dict[str, Any]]:
    inside: dict[tuple[int, bytes | None], list[tuple[int, int]]] = defaultdict(list)
    for rows in partitions:
        watermark = -(2**70)
        for key, value in rows:
            assert value is not None
            if key is None and value.startswith(MAGIC):
                watermark = max(watermark, decode_watermark(value))
                continue
            timestamp, x = (int(field) for field in value.split(b",-,"))
            start = timestamp - timestamp % slide_ms
            while start + size_ms > timestamp:
                if start + size_ms > watermark:
                    inside[start, key].append((timestamp, x))
                start -= slide_ms
    return {place: naive_values(records) for place, records in inside.items()}


def check(engine: Engine, partitions: list[list[Row]], batch_rows: int) -> None:
    engine.run(partitions, batch_rows)
    found: dict[int, dict[Any, Any]] = {each.size_ms: {} for each in engine.plan.windows}
    for row in engine.results():
        start, end = (round(row.pop(f"window_{at}").timestamp() * 1000) for at in ("start", "end"))
        place = (start, row.pop("key"))
        assert place not in found[end - start]
        found[end - start][place] = row
    for each in engine.plan.windows:
        assert found[each.size_ms] == naive_windows(partitions, each.size_ms, each.slide_ms)


XS = [0, 1, -1, 7, -13, 250, 10**6, 999_999_999_999_999_999, -(10**18) + 1]
NUM_RECORDS = 90


@settings(max_examples=30, deadline=None)
@given(
    size_ms=st.integers(1, 40),
    slide_ms=st.integers(1, 40),
    jitter_ms=st.integers(0, 60),
    every=st.integers(1, 30),
    batch_rows=st.integers(1, 80),
    num_partitions=st.integers(1, 3),
    span_ms=st.sampled_from([20, 300, 5_000]),
    more_sizes=st.lists(st.sampled_from([2, 3, 5, 8, 10]), max_size=2, unique=True),
    seed=st.integers(0, 10**6),
)
def test_windows_equal_plain_python(
    tmp_path_factory: pytest.TempPathFactory,
    size_ms: int,
    slide_ms: int,
    jitter_ms: int,
    every: int,
    batch_rows: int,
    num_partitions: int,
    span_ms: int,
    more_sizes: list[int],
    seed: int,
) -> None:
    size_ms, slide_ms = max(size_ms, slide_ms), min(size_ms, slide_ms)
    # Multiples of the slide tumble, so that their panes are built from those of the first.
    more = [Windows(times * slide_ms, times * slide_ms) for times in more_sizes]
    several = [Windows(size_ms, slide_ms), *(each for each in more if each.size_ms != size_ms)]
    random = np.random.default_rng(seed)
    times = out_of_order(NUM_RECORDS, span_ms, jitter_ms, seed)
    keys = [b"abc"[i : i + 1] for i in random.integers(0, 3, NUM_RECORDS).tolist()]
    xs = [XS[i] for i in random.integers(0, len(XS), NUM_RECORDS).tolist()]
    rows: list[Row] = [
        (key, b"%d,-,%d" % (time, x)) for key, time, x in zip(keys, times, xs, strict=True)
    ]
    partitions = deal(rows, times, num_partitions, slide_ms=slide_ms, every=every, seed=seed)
    folder = tmp_path_factory.mktemp("every")
    engine = Engine(Everything(), several, folder, num_partitions, num_shards=2)
    check(engine, partitions, batch_rows)
    assert all(set(store.values) == {"meta", "keys"} for store in engine.stores)


@pytest.mark.parametrize("batch_rows", [50, 1_000, 10**6])
def test_blocks_turn_within_and_between_batches(tmp_path: Path, batch_rows: int) -> None:
    random = np.random.default_rng(5)
    times = out_of_order(4_000, 60_000, 2_499, seed=5)
    rows: list[Row] = [
        (b"key-%d" % key, b"%d,-,%d" % (time, x))
        for key, time, x in zip(
            (random.zipf(1.4, 4_000) % 50).tolist(),
            times,
            random.integers(-1000, 1000, 4_000).tolist(),
            strict=True,
        )
    ]
    partitions = deal(rows, times, 3, slide_ms=100, lateness_ms=1_000, every=20)
    check(Engine(Everything(), Windows(7_000, 100), tmp_path, 3, 2), partitions, batch_rows)


@pytest.mark.parametrize("emit", ["top", "changed"])
def test_lists_go_with_the_rows_they_are_of(tmp_path: Path, emit: str) -> None:
    times = out_of_order(600, 9_000, 300, seed=3)
    random = np.random.default_rng(3)
    draws = zip(
        random.integers(0, 9, 600).tolist(), random.integers(-3, 4, 600).tolist(), strict=True
    )
    rows: list[Row] = [
        (b"key-%d" % key, b"%d,-,%d" % (time, x))
        for (key, x), time in zip(draws, times, strict=True)
    ]
    partitions = deal(rows, times, 2, slide_ms=100, every=20)
    engine = Engine(Everything(), Windows(400, 100), tmp_path, 2, 3, emit, k=2)
    engine.run(partitions, 70)
    expected = naive_windows(partitions, 400, 100)
    gone = 0
    for row in engine.results():
        place = (round(row["window_start"].timestamp() * 1000), row["key"])
        assert row["values"] == (expected[place]["values"] if row["count"] else None)
        gone += not row["count"]
    assert (gone > 0) == (emit == "changed")


def test_a_list_orders_nothing() -> None:
    with pytest.raises(InputError, match="values is a list and orders nothing"):
        Aggregates(Collect("values", "x"), order_by=("values",))


def test_a_total_beyond_64_bits_is_exact_as_decimal_and_refused_as_int64(tmp_path: Path) -> None:
    x = 999_999_999_999_999_999
    rows: list[Row] = [(b"k", b"%d,-,%d" % (i, x)) for i in range(20)]
    partitions: list[list[Row]] = [[*rows, (None, encode_watermark(END_MS))]]
    engine = Engine(KeyedSum(), Windows(100, 100), tmp_path / "decimal", 1)
    engine.run(partitions, 100)
    assert engine.results()[0]["sum"] == Decimal(20 * x)

    class Narrow(KeyedSum):
        value_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("sum", pa.int64()),)

    engine = Engine(Narrow(), Windows(100, 100), tmp_path / "narrow", 1)
    with pytest.raises(RunError, match=r'"sum" is larger than 64 bits: .* decimal128'):
        engine.run(partitions, 100)


def test_money_does_not_drift_over_100_000_slides(tmp_path: Path) -> None:
    cents = [10, 20, 30, 1_999, -5]
    rows: list[Row] = [(b"k", b"%d,-,%d" % (i, cents[i % 5])) for i in range(100_000)]
    partitions: list[list[Row]] = [[*rows, (None, encode_watermark(END_MS))]]
    engine = Engine(KeyedSum(), Windows(10, 1), tmp_path, 1)
    engine.run(partitions, 7_777)
    sums = {round(r["window_start"].timestamp() * 1000): r["sum"] for r in engine.results()}
    assert len(sums) == 100_009
    assert {sums[start] for start in range(99_991)} == {Decimal(2 * sum(cents))}


INT64S = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INT64S, min_size=1, max_size=30), st.integers(1, 10**12))
def test_limbs_are_exact(values: list[int], divisor: int) -> None:
    array = np.array(values, dtype=np.int64)
    limbs = np.array([[limb.sum()] for limb in wide.split(array)])
    squares = np.array([[limb.sum()] for limb in wide.split_squares(array)])
    wide.carry(limbs)
    wide.carry(squares)
    assert (squares[1:] >= 0).all()
    assert wide.to_integers(limbs)[0] == sum(values)
    assert wide.to_integers(squares)[0] == sum(x * x for x in values)
    assert wide.to_floats(limbs, divisor)[0] == sum(values) / divisor
    assert wide.to_array(limbs, pa.decimal128(38, 2), "x").to_pylist() == [
        Decimal(sum(values)).scaleb(-2)
    ]


@given(st.lists(st.tuples(st.integers(1, MOD), st.booleans()), min_size=1, max_size=70))
def test_scans_of_any_associative_operation(items: list[tuple[int, bool]]) -> None:
    """Two by two matrices: not commutative, so order is checked too."""

    def combine(a: Int64s, b: Int64s) -> Int64s:
        return np.stack([a[0] * b[0] % MOD, (a[0] * b[1] + a[1]) % MOD])

    states = np.array([[value for value, _ in items], range(len(items))], dtype=np.int64)
    begins = np.array([begin for _, begin in items])
    begins[0] = True
    expected: list[Int64s] = []
    for i in range(len(items)):
        state = states[:, i : i + 1]
        expected.append(state if begins[i] else combine(expected[-1], state))
    assert np.array_equal(scan(combine, states, begins), np.concatenate(expected, axis=1))
    ends = np.append(begins[1:], True)
    assert np.array_equal(fold(combine, states, begins), np.concatenate(expected, axis=1)[:, ends])
    backwards: list[Int64s] = []
    for i in reversed(range(len(items))):
        state = states[:, i : i + 1]
        backwards.append(state if ends[i] else combine(state, backwards[-1]))
    assert np.array_equal(scan_back(combine, states, ends), np.concatenate(backwards[::-1], axis=1))
