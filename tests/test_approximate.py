"""Approximate aggregates, top values, one's own with `deduct`: through the stages, and errors."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any, ClassVar

import datasketches
import duckdb
import numpy as np
import pyarrow as pa
import pytest
from streams import Engine, Row, deal, out_of_order

from partitioners.errors import InputError
from pipelines.aggregates import Aggregate, Aggregates, Distinct, Int64s, Median
from pipelines.approximate import ApproxDistinct, ApproxQuantile, TopK
from pipelines.laws import check_laws
from pipelines.panes import Windows
from pipelines.workloads import KeyedSum

TOP = pa.list_(pa.struct([("value", pa.int64()), ("count", pa.int64())]))


class Checksum(Aggregate):
    """A user's own that can be deducted: the exclusive or of x."""

    neutral = (0,)

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        return [columns["x"]]

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        return a ^ b

    def deduct(self, a: Int64s, b: Int64s) -> Int64s:
        return a ^ b


class Near(KeyedSum):
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("count", pa.int64()),
        pa.field("checksum", pa.int64()),
        pa.field("near", pa.int64()),
        pa.field("about", pa.float64()),
        pa.field("top", TOP),
        pa.field("distinct", pa.int64()),
        pa.field("median", pa.float64()),
    )
    aggregates: ClassVar[Aggregates] = Aggregates(
        Checksum("checksum"),
        ApproxDistinct("near", "x"),
        ApproxQuantile("about", "x", 0.9),
        TopK("top", "x", 3),
        Distinct("distinct", "x"),
        Median("median", "x"),
    )


def naive(xs: list[int]) -> dict[str, Any]:
    most = sorted(Counter(xs).items(), key=lambda item: (-item[1], item[0]))[:3]
    return {
        "count": len(xs),
        "checksum": reduce(xor, xs),
        "top": [{"value": value, "count": count} for value, count in most],
        "distinct": len(set(xs)),
    }


@pytest.mark.parametrize("batch_rows", [500, 10**6])
@pytest.mark.parametrize("size_ms", [7_000, 100])
def test_through_the_stages(tmp_path: Path, batch_rows: int, size_ms: int) -> None:
    random = np.random.default_rng(5)
    n = 2_000
    times = out_of_order(n, 30_000, 2_000, seed=5)
    keys = (random.zipf(1.4, n) % 20).tolist()
    # Some values are frequent, most are rare, so that tops change hands.
    xs = (random.zipf(1.3, n) % 300 - 20).tolist()
    rows: list[Row] = [
        (b"key-%d" % key, b"%d,-,%d" % (time, x))
        for key, time, x in zip(keys, times, xs, strict=True)
    ]
    partitions = deal(rows, times, 3, slide_ms=100, lateness_ms=5_000, every=20)
    engine = Engine(Near(), Windows(size_ms, 100), tmp_path, 3, 2)
    summary = engine.run(partitions, batch_rows)
    assert summary.late == 0
    inside: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for (key, _), time, x in zip(rows, times, xs, strict=True):
        assert key is not None
        for start in range(time - time % 100, time - size_ms, -100):
            inside[start, key].append(x)
    found = {(round(r["window_start"].timestamp() * 1000), r["key"]): r for r in engine.results()}
    assert set(found) == set(inside)
    for place, xs_inside in inside.items():
        row = found[place]
        assert {name: row[name] for name in naive(xs_inside)} == naive(xs_inside)
        # A window of some hundred values is far below what the sketch errs at.
        assert abs(row["near"] - row["distinct"]) <= max(3, 0.06 * row["distinct"])
        ordered = sorted(xs_inside)
        at = 0.9 * (len(ordered) - 1)
        low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
        exact = low + (high - low) * (at - math.floor(at))
        assert abs(row["about"] - exact) <= max(abs(low), abs(high)) / 256 + 1e-9


def test_the_results_do_not_depend_on_the_batches(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    times = np.sort(random.integers(0, 5_000, 20_000)).tolist()
    xs = random.integers(0, 2**40, 20_000).tolist()
    rows: list[Row] = [(b"k", b"%d,-,%d" % pair) for pair in zip(times, xs, strict=True)]
    seen = []
    for number, (batch_rows, parts) in enumerate([(10**6, 1), (999, 4)]):
        partitions = deal(rows, times, parts, slide_ms=500)
        engine = Engine(Near(), Windows(2_000, 500), tmp_path / str(number), parts)
        engine.run(partitions, batch_rows)
        seen.append([(r["window_start"], r["near"], r["about"]) for r in engine.results()])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("num_values", [100, 5_000, 200_000])
def test_errors_are_as_stated_and_those_of_a_known_library(tmp_path: Path, num_values: int) -> None:
    """Against DuckDB's exact answers, beside the sketches of Apache DataSketches."""
    xs = (np.random.default_rng(7).lognormal(10, 2, num_values)).astype(np.int64)
    rows: list[Row] = [(b"k", b"5,-,%d" % x) for x in xs.tolist()]
    engine = Engine(Near(), Windows(10, 10), tmp_path)
    engine.run(deal(rows, [5] * num_values, 1, slide_ms=10), 10**6)
    (row,) = engine.results()
    sample = pa.table({"x": xs})  # noqa: F841  DuckDB reads it by its name
    (exact,) = duckdb.sql("SELECT count(DISTINCT x), quantile_cont(x, 0.9) FROM sample").fetchall()
    assert row["distinct"] == exact[0]
    error = 1.04 / math.sqrt(4_096)
    assert abs(row["near"] / exact[0] - 1) < 3 * error
    library = datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_8)
    for x in xs.tolist():
        library.update(x)
    assert abs(row["near"] - library.get_estimate()) < 6 * error * exact[0]
    assert abs(row["about"] / exact[1] - 1) < 1 / 256
    quantiles = datasketches.kll_floats_sketch(200)
    quantiles.update(xs.astype(np.float32))
    rank = quantiles.get_rank(row["about"])
    assert abs(rank - 0.9) < 0.03


def test_deduct_is_a_law() -> None:
    x = np.array([0, -1, 5, 2**63 - 1, -(2**63), 7, 7])
    check_laws(Checksum("c"), {"x": x, "timestamp_ms": np.arange(7)})
    assert Checksum("c").slides == "deducts"

    class Wrong(Checksum):
        def deduct(self, a: Int64s, b: Int64s) -> Int64s:
            return a - b

    with pytest.raises(InputError, match=r"deduct\(combine\(a, b\), b\) = a does not hold"):
        check_laws(Wrong("w"), {"x": x, "timestamp_ms": np.arange(7)})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ApproxDistinct("a", "x", 3), "index_bits must be from 4 to 16, not 3"),
        (lambda: ApproxQuantile("a", "x", mantissa_bits=1), "mantissa_bits must be from 3 to 20"),
        (lambda: ApproxQuantile("a", "x", 1.5), "quantile must be from 0 to 1"),
        (lambda: TopK("a", "x", 0), "k of a TopK must be from 1 to 50"),
    ],
)
def test_options_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("bits", [3, 7, 20])
def test_buckets_hold_their_values(bits: int) -> None:
    about = ApproxQuantile("a", "x", mantissa_bits=bits)
    edges = [s * (2**p + d) for p in range(62) for d in (-1, 0, 1) for s in (-1, 1)]
    x = np.array([*edges, 2**63 - 1, -(2**63) + 1, 0], dtype=np.int64)
    middles = about._middles(about.reduce_values(x))
    exact = [int(v) for v in x]
    for middle, value in zip(middles.tolist(), exact, strict=True):
        # A double rounds integers beyond 2**53.
        rounding = 2 if abs(value) > 2**53 else 0
        assert (abs(middle - value) - rounding) * 2 ** (bits + 1) <= abs(value)
    ordered = np.sort(x)
    assert (np.diff(about.reduce_values(ordered)) >= 0).all()
