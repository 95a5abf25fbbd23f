"""Queries over topics whose record values are JSON objects.

Only the fields a query names are read. Numbers become integers of a fixed number of decimal places,
so that 0.1 is one tenth and sums are exact. Numbers with a fraction may have 15 digits in all, what
every reader of JSON keeps; integers 18.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa

from partitioners.errors import InputError, nearest
from pipelines.aggregates import Aggregate, Aggregates
from pipelines.query import Decoded, Query

TimeUnit = Literal["ms", "s", "us", "iso"]
TIME_UNITS = ("ms", "s", "us", "iso")
MAX_DIGITS = 9
# Decimal digits a double keeps, whatever they are.
FRACTION_DIGITS = 15
# Readers of Parquet keep microseconds, which end with the year 294247; this is the year 33658.
_END_MS = 10**15
_ISO = (
    r"^(?P<day>\d{4}-\d\d-\d\d)"
    r"(?:[Tt ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<zone_hour>\d\d):?(?P<zone_minute>\d\d)?)?)?$"
)


class JsonQuery(Query):
    """A query over JSON records; what `pipelines.run` makes of its arguments.

    Args:
        name: Its name.
        aggregates: What to compute, beside the count.
        time: The field with the event time.
        time_unit: What it holds: milliseconds, seconds or microseconds of the Unix epoch, or
            ISO 8601 text (UTC unless it says otherwise).
        key: The field to group by; None: the key of the record.
        decimals: Decimal places of number fields; those that are not here are integers.
        order_by: Aggregates that order a window's top.
        k: Size of a window's top.
    """

    def __init__(
        self,
        name: str,
        aggregates: Sequence[Aggregate],
        *,
        time: str,
        time_unit: TimeUnit = "ms",
        key: str | None = None,
        decimals: Mapping[str, int] | None = None,
        order_by: tuple[str, ...] = ("count",),
        k: int = 10,
    ) -> None:
        if time_unit not in TIME_UNITS:
            raise InputError(f'time_unit must be one of {", ".join(TIME_UNITS)}, not "{time_unit}"')
        self._digits = dict(decimals or {})
        for field, digits in self._digits.items():
            if not 0 <= digits <= MAX_DIGITS:
                raise InputError(
                    f'"{field}" cannot have {digits} decimal places: give 0 to {MAX_DIGITS}'
                )
        self._time, self._time_unit, self._key = time, time_unit, key
        scaled = [self._scale(each) for each in aggregates]
        self._fields = tuple(dict.fromkeys(name for each in scaled for name in each.reads))
        together = Aggregates(*scaled, order_by=order_by)
        key_field = pa.field(key or "key", pa.string() if key else pa.binary())
        names = [key_field.name, *(each.name for each in together.all)]
        double = next((each for each in names if names.count(each) > 1), None)
        if double is not None:
            raise InputError(f'two columns of the results are called "{double}": rename one')
        unknown = next((each for each in order_by if each not in names[1:]), None)
        if unknown is not None:
            raise InputError(
                f'order_by names "{unknown}", no aggregate: {nearest(unknown, names[1:])}'
            )
        # What other queries have as attributes of their class.
        vars(self).update(
            name=name,
            aggregates=together,
            k=k,
            key_fields=(key_field,),
            value_fields=tuple(
                pa.field(each.name, each.default_type(self._digits_of(each)))
                for each in together.all
            ),
        )

    def _digits_of(self, aggregate: Aggregate) -> int:
        return self._digits.get(getattr(aggregate, "column", ""), 0)

    def _scale(self, aggregate: Aggregate) -> Aggregate:
        """Tell an aggregate that divides how its column is scaled."""
        digits = self._digits_of(aggregate)
        scale = getattr(aggregate, "scale", None)
        if not digits or scale is None:
            return aggregate
        more: dict[str, Any] = {"scale": scale * 10**digits}
        return dataclasses.replace(aggregate, **more)

    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:  # noqa: ARG002
        """See `Query`."""
        frame = pl.DataFrame({"json": _texts(values)})
        wanted = {name: _field(name) for name in {self._time, *self._fields}}
        if self._key is not None:
            wanted[" key"] = _field(self._key)
        frame = frame.select(**wanted)
        numbers = {name: _scaled(frame[name], self._digits.get(name, 0)) for name in self._fields}
        times = self._times(frame[self._time])
        good = times.is_not_null() & times.is_between(-_END_MS, _END_MS)
        for column in numbers.values():
            good &= column.is_not_null()
        mask = good.to_numpy()
        return Decoded(
            times.fill_null(0).to_numpy(),
            {name: column.fill_null(0).to_numpy() for name, column in numbers.items()},
            None if mask.all() else mask,
            None if self._key is None else frame[" key"].to_arrow().cast(pa.binary()),
        )

    def why_dead(self, keys: pa.Array, values: pa.Array) -> list[str]:  # noqa: ARG002
        """See `Query`; of several reasons the first."""
        frame = pl.DataFrame({"json": _texts(values)})

        def numbers(name: str) -> pl.Series:
            text = frame.select(_field(name)).to_series()
            return _scaled(text, self._digits.get(name, 0))

        text = frame["json"]
        times = self._times(frame.select(_field(self._time)).to_series())
        checks = {
            "its value is null or no UTF-8": text.is_not_null(),
            "its value is no JSON object": text.str.contains(r"^\s*\{"),
            f'"{self._time}" is missing or no time ({self._time_unit})': times.is_between(
                -_END_MS, _END_MS
            ),
        }
        for name in self._fields:
            places = self._digits.get(name, 0)
            wanted = f"no number of at most {places} decimal places" if places else "no integer"
            checks[f'"{name}" is missing or {wanted}'] = numbers(name).is_not_null()
        reasons = np.full(len(text), "its key is none of a text column", dtype=object)
        for reason, holds in reversed(checks.items()):
            reasons[~holds.fill_null(value=False).to_numpy()] = reason
        return list(reasons)

    def _times(self, text: pl.Series) -> pl.Series:
        if self._time_unit == "iso":
            return iso_ms(text)
        number = _scaled(text, 3 if self._time_unit == "s" else 0)
        return number // 1_000 if self._time_unit == "us" else number


def iso_ms(text: pl.Series) -> pl.Series:
    """Read ISO 8601 times as milliseconds, each by itself; null where one is none.

    A date, or a date and a time with or without seconds, a fraction, and a zone (UTC without one).
    A second 60 is the first of the next minute, as Unix time has leap seconds. Polars' own reader
    takes the format from the first text of a batch: others would read or not by their company.

    Example:
        >>> iso_ms(pl.Series(["1970-01-01", "1970-01-01T00:59:60.5+01:00", "soon"])).to_list()
        [0, 500, None]
    """
    part = pl.col("text").str.extract_groups(_ISO).struct.field

    def number(name: str) -> pl.Expr:
        return part(name).cast(pl.Int64, strict=False).fill_null(0)

    hour, minute, second = number("hour"), number("minute"), number("second")
    zone_hour, zone_minute = number("zone_hour"), number("zone_minute")
    sign = pl.when(part("sign") == "-").then(-1).otherwise(1)
    seconds = hour * 3_600 + minute * 60 + second - sign * (zone_hour * 3_600 + zone_minute * 60)
    fraction = part("fraction").fill_null("").str.pad_end(3, "0").str.slice(0, 3)
    day = part("day").str.to_date("%Y-%m-%d", strict=False).cast(pl.Int64)
    there = (hour < 24) & (minute < 60) & (second < 61) & (zone_hour < 24) & (zone_minute < 60)
    time = day * 86_400_000 + seconds * 1_000 + fraction.cast(pl.Int64)
    return pl.DataFrame({"text": text}).select(pl.when(there).then(time)).to_series()


def _field(name: str) -> pl.Expr:
    """The text of a field of each object; null where there is none."""
    return pl.col("json").str.json_path_match(f"$[{json.dumps(name)}]")


def _texts(values: pa.Array) -> pl.Series:
    """Values as text; null where they are not UTF-8."""
    try:
        return pl.Series("json", values.cast(pa.string()))
    except pa.ArrowInvalid:
        texts = [None if value is None else _text(value) for value in values.to_pylist()]
        return pl.Series("json", texts, dtype=pl.String)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _scaled(text: pl.Series, digits: int) -> pl.Series:
    """Read decimal numbers as integers of so many places; null where a number has more."""
    frame = pl.DataFrame({"text": text.str.strip_chars()})
    column = pl.col("text")
    parts = column.str.strip_chars_start("-").str.split_exact(".", 1)
    whole = parts.struct.field("field_0").cast(pl.Int64, strict=False)
    fraction = parts.struct.field("field_1").fill_null("").str.pad_end(digits, "0")
    below = fraction.cast(pl.Int64, strict=False) if digits else pl.lit(0)
    value = whole * 10**digits + below
    value = pl.when(column.str.starts_with("-")).then(-value).otherwise(value)
    places = rf"(?:\.\d{{1,{digits}}})?" if digits else ""
    fits = column.str.contains(rf"^-?\d{{1,{18 - digits}}}{places}$")
    if digits:
        # A fraction of no value comes with every number written with an exponent.
        fits &= column.str.count_matches(r"\d") <= FRACTION_DIGITS
    return frame.select(pl.when(fits).then(value).alias("value"))["value"]
