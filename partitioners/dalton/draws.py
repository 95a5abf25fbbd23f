"""Random draws of the agent: a seeded generator whose state is one word of the agent's state.

It is the 48-bit linear congruential generator that the documentation of `java.util.Random`
specifies (Knuth, TAOCP 2, section 3.2.1), so that a run of the authors' code can be replayed draw
by draw; it costs two multiplications per record, and quality beyond that is not asked of a coin
that says "explore".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing_step

_MULTIPLIER = 0x5DEECE66D
_MASK = (1 << 48) - 1


def first_word(seed: int) -> int:
    """Turn a seed into the generator's first state.

    Args:
        seed: Any integer; its low 48 bits count.

    Returns:
        The state.
    """
    return (seed ^ _MULTIPLIER) & _MASK


@borrowing_step
def _next(words: npt.NDArray[np.int64], place: int, bits: int) -> int:
    word = (words[place] * _MULTIPLIER + 0xB) & _MASK
    words[place] = word
    return int(word >> (48 - bits))


@borrowing_step
def uniform(words: npt.NDArray[np.int64], place: int) -> float:
    """Draw a number in [0, 1) with 53 random bits; the state is ``words[place]``."""
    high = _next(words, place, 26)
    low = _next(words, place, 27)
    return ((high << 27) + low) * 2.0**-53


@borrowing_step
def below(words: npt.NDArray[np.int64], place: int, bound: int) -> int:
    """Draw a whole number in 0 .. bound - 1, each as likely."""
    bits = _next(words, place, 31)
    if bound & (bound - 1) == 0:
        return int((bound * bits) >> 31)
    drawn = bits % bound
    while bits - drawn + (bound - 1) >= 1 << 31:
        bits = _next(words, place, 31)
        drawn = bits % bound
    return int(drawn)
