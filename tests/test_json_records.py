"""JSON records to columns; what `pipelines.run` refuses; the laws of aggregates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import pipelines
from partitioners.errors import InputError
from pipelines.aggregates import Aggregate, First, Int64s, Last, Max, Mean, Min, Sum, Variance
from pipelines.json_records import JsonQuery
from pipelines.laws import check_laws
from pipelines.panes import Windows


def query(*aggregates: Aggregate, **options: object) -> JsonQuery:
    settings = {"time": "ts", "key": "user", "decimals": {"price": 2}, **options}
    return JsonQuery("test", aggregates, **settings)  # type: ignore[arg-type]


def values(*texts: str | bytes | None) -> pa.Array:
    raw = [text.encode() if isinstance(text, str) else text for text in texts]
    return pa.array(raw, type=pa.binary())


def test_numbers_are_read_from_their_text() -> None:
    rows = values(
        '{"ts": 5, "user": "a", "price": 0.1}',
        '{"ts": -7, "user": "b", "price": -12}',
        '{"ts": 9, "user": "c", "price": "3.07", "more": {"ts": 1}}',
        '{"user": "d", "price": 1e3, "ts": 1}',
    )
    decoded = query(Sum("spent", "price")).decode(pa.nulls(4, pa.binary()), rows)
    assert decoded.good is None
    assert decoded.timestamp_ms.tolist() == [5, -7, 9, 1]
    assert decoded.columns["price"].tolist() == [10, -1200, 307, 100_000]
    assert decoded.keys is not None
    assert decoded.keys.to_pylist() == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "",
        "no json",
        "[1]",
        "{}",
        b"\xff\xfe",
        '{"ts": 5}',
        '{"ts": null, "price": 1}',
        '{"ts": 1.5, "price": 1}',
        '{"ts": "soon", "price": 1}',
        '{"ts": 1, "price": 0.001}',
        '{"ts": 1, "price": 1e-3}',
        '{"ts": 1, "price": 12345678901234.56}',
        '{"ts": 1, "price": 99999999999999999999}',
        '{"ts": 9999999999999999, "price": 1}',
        '{"ts": 1, "price": NaN}',
        '{"ts": 1, "price": "NaN"}',
        '{"ts": 1, "price": Infinity}',
        '{"ts": 1, "price": 1e300}',
        '{"ts": 1, "price": -1e300}',
    ],
)
def test_records_that_are_not_as_said_are_told_apart(bad: str | bytes | None) -> None:
    good = '{"ts": 1, "user": "a", "price": 1}'
    decoded = query(Sum("spent", "price")).decode(pa.nulls(2, pa.binary()), values(good, bad))
    assert decoded.good is not None
    assert decoded.good.tolist() == [True, False]


@pytest.mark.parametrize(
    ("unit", "text", "wanted"),
    [
        ("ms", "1700000000123", 1_700_000_000_123),
        ("s", "1700000000.5", 1_700_000_000_500),
        ("us", "1700000000123456", 1_700_000_000_123),
        ("iso", '"2023-11-14T22:13:20.250Z"', 1_700_000_000_250),
    ],
)
def test_units_of_time(unit: str, text: str, wanted: int) -> None:
    decoded = query(time_unit=unit).decode(pa.nulls(1, pa.binary()), values(f'{{"ts": {text}}}'))
    assert decoded.timestamp_ms.tolist() == [wanted]


ISO = {
    "2015-06-30T23:59:59Z": 1_435_708_799_000,
    "2015-06-30T23:59:60Z": 1_435_708_800_000,
    "2015-06-30T23:59:60.25": 1_435_708_800_250,
    "2015-06-30 23:59:61": None,
    "2015-06-30T24:00:00Z": None,
    "2015-02-29T00:00:00Z": None,
    "2015-07-01": 1_435_708_800_000,
    "2015-07-01T00:00": 1_435_708_800_000,
    "2015-07-01T02:00:00.123456789+02:00": 1_435_708_800_123,
    "2015-06-30T16:30:00-0730": 1_435_708_800_000,
    "2015-07-01T00:00:00+01:60": None,
    "1969-12-31T23:59:59.999Z": -1,
    "2015/07/01": None,
    "soon": None,
}


@pytest.mark.parametrize("chosen", [*([text] for text in ISO), list(ISO), list(reversed(ISO))])
def test_iso_times_are_read_whatever_stands_beside_them(chosen: list[str]) -> None:
    rows = values(*(json.dumps({"ts": text}) for text in chosen))
    decoded = query(time_unit="iso").decode(pa.nulls(len(chosen), pa.binary()), rows)
    good = [True] * len(chosen) if decoded.good is None else decoded.good.tolist()
    found = [ms if there else None for ms, there in zip(decoded.timestamp_ms, good, strict=True)]
    assert found == [ISO[text] for text in chosen]


def test_columns_of_the_results_have_the_decimals_of_what_they_read() -> None:
    made = query(Sum("spent", "price"), Mean("mean", "price"), Max("most", "price"), Min("n", "x"))
    assert [str(each.type) for each in made.value_fields] == [
        "int64",
        "decimal128(38, 2)",
        "double",
        "decimal128(19, 2)",
        "int64",
    ]
    states = np.array([[2], [0], [301], [0], [301], [250], [7]])
    assert [column.to_pylist() for column in made.finish_values(states)] == [
        [2],
        [Decimal("3.01")],
        [1.505],
        [Decimal("2.50")],
        [7],
    ]


@pytest.mark.parametrize(
    ("aggregates", "options", "message"),
    [
        ([], {"time_unit": "hours"}, "time_unit must be one of ms, s, us, iso"),
        ([], {"decimals": {"price": 40}}, '"price" cannot have 40 decimal places: give 0 to 9'),
        ([Sum("count", "price")], {}, 'two columns of the results are called "count"'),
        ([Sum("user", "price")], {}, 'two columns of the results are called "user"'),
        ([Sum("spent", "price")], {"order_by": ("spend",)}, 'did you mean "spent"'),
    ],
)
def test_arguments_that_cannot_be(
    aggregates: list[Aggregate], options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        query(*aggregates, **options)


@pytest.mark.parametrize("text", ["", "30", "min", "30 weeks", "-1 s", "0.0001 ms"])
def test_durations_that_cannot_be(text: str) -> None:
    with pytest.raises(InputError, match=r"is no duration|at least 1 ms"):
        Windows.of(text)


def test_every_name_of_the_package_is_there() -> None:
    assert all(getattr(pipelines, name) for name in pipelines.__all__)


COLUMNS = {
    "x": np.array([0, -1, 5, 2**63 - 1, -(2**63), 7, 7]),
    "timestamp_ms": np.array([3, 1, 4, 1, 5, 9, 2]),
}


@pytest.mark.parametrize(
    "aggregate",
    [
        Sum("a", "x"),
        Mean("a", "x"),
        Variance("a", "x"),
        Min("a", "x"),
        First("a", "x"),
        Last("a", "x"),
    ],
)
def test_our_own_aggregates_keep_the_laws(aggregate: Aggregate) -> None:
    check_laws(aggregate, COLUMNS)


class Difference(Aggregate):
    """Not commutative."""

    neutral = (0,)

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        return [columns["x"] // 4]

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        return a - b


class Midpoint(Difference):
    """Commutative, not associative."""

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        return (a + b) // 2


class Capped(Difference):
    """Its neutral state is none."""

    neutral = (-1,)

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        return np.minimum(a, b)


@pytest.mark.parametrize(
    ("aggregate", "law"),
    [
        (Difference("d"), r"combine\(a, b\) = combine\(b, a\) does not hold for a = "),
        (Midpoint("m"), r"combine\(combine\(a, b\), c\) = combine\(a, combine\(b, c\)\) does not"),
        (Capped("c"), r"combine\(neutral, a\) = a does not hold"),
    ],
)
def test_broken_laws_are_named_with_an_example(aggregate: Aggregate, law: str) -> None:
    with pytest.raises(InputError, match=law):
        check_laws(aggregate, COLUMNS)
