"""Streams by name and options, as a command line has them: ``zipf:exponent=1.0:num_keys=500``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from partitioners import streams
from partitioners.errors import InputError, nearest
from partitioners.option_values import parse_value
from partitioners.streams import Stream

STREAMS: dict[str, Callable[..., Stream]] = {
    "zipf": streams.zipf,
    "uniform": streams.uniform,
    "one_hot": streams.one_hot,
    "top_share": streams.top_share,
    "lognormal": streams.lognormal,
    "drift": streams.drift,
    "alternating": streams.alternating,
    "varying": streams.varying,
    "mixed": streams.mixed,
}

_GIVEN_APART = ("num_records", "seed")
_MAX_KEYS = 100_000_000
_MAX_PHASES = 100_000


@dataclass(frozen=True)
class Named:
    """A name with options: ``name:option=value:option=value``."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return ":".join([self.name, *(f"{option}={value}" for option, value in self.options)])


@dataclass(frozen=True)
class GeneratedStream:
    """A stream to be generated, where it is needed; what simulations are given.

    Attributes:
        kind: Its name and options.
        num_records: Its length.
        seed: Of its draws.

    Example:
        >>> GeneratedStream(parse_named("one_hot:fraction=0.5"), 1_000, 1).load().ids.max() < 10_000
        np.True_
    """

    kind: Named
    num_records: int
    seed: int

    @property
    def label(self) -> str:
        """What it is called in tables."""
        return str(self.kind)

    def load(self) -> Stream:
        """Generate it."""
        return STREAMS[self.kind.name](
            num_records=self.num_records, seed=self.seed, **dict(self.kind.options)
        )


def parse_named(text: str) -> Named:
    """Read ``name:option=value:option=value``; values are whole numbers, numbers, truths or words.

    Args:
        text: What the user wrote.

    Returns:
        Name and options, in their order.

    Raises:
        InputError: An option is none, or comes twice.

    Example:
        >>> parse_named("pkg:d=5:tie=last")
        Named(name='pkg', options=(('d', 5), ('tie', 'last')))
    """
    name, *parts = text.strip().split(":")
    options: dict[str, Any] = {}
    for part in parts:
        option, equals, value = part.partition("=")
        if not option or not equals:
            raise InputError(f'"{part}" in "{text}" is not option=value: write {name}:option=value')
        if option in options:
            raise InputError(f'{option} comes twice in "{text}": leave one out')
        options[option] = parse_value(value)
    return Named(name, tuple(options.items()))


def parse_stream(text: str, num_records: int, seed: int) -> GeneratedStream:
    """Read the name of a generated stream, and check its options.

    Args:
        text: Such as ``zipf`` or ``zipf:exponent=1.0``.
        num_records: Its length.
        seed: Of its draws.

    Returns:
        The stream to be.

    Raises:
        InputError: An unknown name or option, or a value that cannot be.
    """
    kind = parse_named(text)
    if kind.name not in STREAMS:
        raise InputError(f'no stream is called "{kind.name}"; {nearest(kind.name, STREAMS)}')
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(STREAMS[kind.name]).parameters.items()
        if name not in _GIVEN_APART
    }
    for option, value in kind.options:
        if option not in parameters:
            raise InputError(f'{kind.name} has no option "{option}"; {nearest(option, parameters)}')
        _check_number(kind.name, option, value, whole=isinstance(parameters[option].default, int))
    _check_ranges(kind.name, dict(kind.options), num_records)
    return GeneratedStream(kind, num_records, seed)


def _check_number(stream: str, option: str, value: Any, *, whole: bool) -> None:
    kinds: tuple[type, ...] = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        number = "a whole number" if whole else "a number"
        raise InputError(f"{option} of {stream} must be {number}, not {value}")


_RANGES: Mapping[str, tuple[float, float]] = {
    "num_keys": (2, _MAX_KEYS),
    "num_phases": (1, _MAX_PHASES),
    "exponent": (0, 16),
    "low": (0, 16),
    "high": (0, 16),
    "fraction": (0, 1),
    "mu": (-20, 20),
    "sigma": (0, 5),
}


def _check_ranges(stream: str, options: Mapping[str, Any], num_records: int) -> None:
    for option, value in options.items():
        low, high = _RANGES[option]
        if not low <= value <= high:
            raise InputError(f"{option} of {stream} must be from {low:g} to {high:g}, not {value}")
    if options.get("num_phases", 1) > num_records:
        raise InputError(f"{stream} has more phases than records: lower num_phases")
    if options.get("low", 0.5) > options.get("high", 1.5):
        raise InputError(f"low of {stream} is above its high: exchange them")
    if stream == "top_share":
        streams.zipf_exponent(options.get("num_keys", 10_000), options.get("fraction", 0.1))
