"""Checks of the laws an aggregate must keep, so that batches and partitions do not matter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from partitioners.errors import InputError
from pipelines.aggregates import Aggregate, Int64s, OfValues


def check_laws(
    aggregate: Aggregate, columns: Mapping[str, Int64s], *, num_rounds: int = 20, seed: int = 0
) -> None:
    """See that combining is associative and commutative, and that `neutral` changes nothing.

    And that `deduct`, where there is one, takes out what was combined.

    Args:
        aggregate: One's own aggregate.
        columns: Records to try it on, int64[n] for each column it reads and `timestamp_ms`; the odd
            values that may come belong in here: 0, negative, the largest.
        num_rounds: How often records are drawn and combined.
        seed: Of the draws.

    Raises:
        InputError: Which law does not hold, and for which states.

    Example:
        >>> from pipelines.aggregates import Max
        >>> x = np.array([3, -1, 2**62])
        >>> check_laws(Max("largest", "x"), {"x": x, "timestamp_ms": np.arange(3)})
    """
    if isinstance(aggregate, OfValues):
        return
    states = np.stack([np.asarray(column) for column in aggregate.create(columns)])
    if states.dtype != np.int64 or len(states) != len(aggregate.neutral):
        raise InputError(
            f"{aggregate.name}: create must give {len(aggregate.neutral)} int64 arrays, as many as "
            f"neutral has values; it gave {len(states)} of {states.dtype}"
        )
    random = np.random.default_rng(seed)
    neutral = np.repeat(np.array(aggregate.neutral, dtype=np.int64)[:, None], states.shape[1], 1)
    for _ in range(num_rounds):
        a, b, c = (states[:, random.permutation(states.shape[1])] for _ in range(3))
        both = aggregate.combine(a, b)
        _same(aggregate, "combine(a, b) = combine(b, a)", both, aggregate.combine(b, a), a, b)
        left = aggregate.combine(both, c)
        right = aggregate.combine(a, aggregate.combine(b, c))
        law = "combine(combine(a, b), c) = combine(a, combine(b, c))"
        _same(aggregate, law, left, right, a, b, c)
        _same(aggregate, "combine(neutral, a) = a", aggregate.combine(neutral, a), a, a)
        if aggregate.slides == "deducts":
            law = "deduct(combine(a, b), b) = a"
            _same(aggregate, law, aggregate.deduct(both, b), a, a, b)
        if aggregate.slides == "adds":
            _same(aggregate, "combine(a, b) = a + b", both, a + b, a, b)
        states = np.concatenate([states, both[:, : states.shape[1] // 2 + 1]], axis=1)[:, -4096:]
        neutral = np.repeat(neutral[:, :1], states.shape[1], 1)


def _same(aggregate: Aggregate, law: str, found: Int64s, wanted: Int64s, *states: Int64s) -> None:
    wrong = np.flatnonzero((found != wanted).any(axis=0))
    if len(wrong):
        shown = ", ".join(
            f"{name} = {state[:, wrong[0]].tolist()}"
            for name, state in zip("abc", states, strict=False)
        )
        raise InputError(f"{aggregate.name}: {law} does not hold for {shown}: mend combine")
