"""The options of an algorithm: frozen, checked where they are given."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, TypeAlias

from partitioners.errors import InputError, nearest

Tie: TypeAlias = Literal["first", "last"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Base of every algorithm's options; subclasses check theirs in ``__post_init__``."""

    def __post_init__(self) -> None:
        """End the chain of checks."""

    def require_range(self, name: str, low: float, high: float) -> None:
        """Check an option that is a number.

        Args:
            name: Name of the option.
            low: Least value allowed.
            high: Largest value allowed.

        Raises:
            InputError: It is no number of the option's kind, or out of range.
        """
        value = getattr(self, name)
        kind = int if isinstance(low, int) and isinstance(high, int) else int | float
        if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
            number = "a whole number" if kind is int else "a number"
            raise InputError(f"{name} must be {number} from {low:g} to {high:g}, not {value!r}")

    def require_one_of(self, name: str, known: tuple[str, ...]) -> None:
        """Check an option that is one of a few words.

        Args:
            name: Name of the option.
            known: The words.

        Raises:
            InputError: It is none of them.
        """
        value = getattr(self, name)
        if value not in known:
            raise InputError(f"{name} = {value!r} is not known; {nearest(str(value), known)}")

    def require_bool(self, *names: str) -> None:
        """Check options that are switches.

        Args:
            names: Names of the options.

        Raises:
            InputError: One of them is not True or False.
        """
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise InputError(f"{name} must be True or False, not {value!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceConfig(Config):
    """Options every d-choices algorithm shares.

    Attributes:
        seed: Places the candidates of each key; any 64-bit integer.
        distinct: Whether the candidates of a key must differ (see ``partitioners.hashing``).
        tie: Which candidate wins a draw, the first or the last.
    """

    seed: int = 0
    distinct: bool = True
    tie: Tie = "first"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_range("seed", -(1 << 63), (1 << 64) - 1)
        self.require_bool("distinct")
        self.require_one_of("tie", ("first", "last"))


def make_config(config_type: type[Config], name: str, options: dict[str, Any]) -> Config:
    """Build an algorithm's config from keyword options.

    Args:
        config_type: The algorithm's config.
        name: The algorithm, for the message.
        options: Options by name.

    Returns:
        The config.

    Raises:
        InputError: An option is unknown or out of range.
    """
    known = [field.name for field in dataclasses.fields(config_type)]
    for option in options:
        if option not in known:
            listing = nearest(option, known) if known else "it has none"
            raise InputError(f'{name} has no option "{option}"; {listing}')
    return config_type(**options)
