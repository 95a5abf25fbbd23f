"""Power of two choices without key splitting: a key keeps the partition of its first record.

At its first record a key takes the less loaded of its d candidates, and stays. Keys stay whole, but
the choice is made when nothing is known about the key, and cannot be mended: a key that turns out
hot stays where it is.

Paper: Nasir et al., "The Power of Both Choices", ICDE 2015, section II.B (static application of
power of two choices to key grouping) and IV.B (baseline "PoTC").

======== =============================================================================
symbol   here
======== =============================================================================
d        ``d``, candidates of a key
L_i(t)   ``loads``, what this source has sent to each partition
======== =============================================================================

Cost per record O(1), O(d) at a key's first; memory 24 to 48 bytes per distinct key, for ever or
for a window, and not shared: two sources may send one key to two partitions, so with more than one
source a key is whole per source only. Not for you with many keys or with heavy skew; see ``am`` for
a choice that looks at distinct keys.

Departures: ``window_ms`` forgets loads and keys at every multiple of the window, which bounds the
memory. Candidates and ``distinct`` as in ``pkg``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners.base import (
    MAX_PARTITIONS,
    ChoicePartitioner,
    KeyHashes,
    Loads,
    Partitions,
    TimestampsMs,
    Traits,
    choices_in_use,
)
from partitioners.config import ChoiceConfig
from partitioners.hashing import seed_word
from partitioners.loads import LoadWindowConfig
from partitioners.sticky import StickyPartitioner


@dataclass(frozen=True, kw_only=True)
class PotcConfig(LoadWindowConfig, ChoiceConfig):
    """Options of ``potc``.

    Attributes:
        d: Candidates of a key (2 is the paper's); with ``distinct`` at most all partitions.
    """

    d: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_range("d", 1, MAX_PARTITIONS)


class PoTC(StickyPartitioner, ChoicePartitioner):
    """Power of two choices, whole keys; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> len(set(create("potc", 4).partition_batch(["hot"] * 100).tolist()))
        1
    """

    name = "potc"
    config_type = PotcConfig
    traits = Traits(splits_keys=False)
    config: PotcConfig

    @property
    def num_choices(self) -> int:
        """Candidates of a key."""
        return choices_in_use(self.config.d, self.num_partitions, distinct=self.config.distinct)

    def _first_choice(self) -> tuple[int, bool, bool, np.uint64]:
        config = self.config
        return self.num_choices, config.distinct, config.tie == "last", seed_word(config.seed)

    def select(
        self,
        choices: npt.NDArray[np.int32],
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose among given partitions; see ``ChoicePartitioner.select``."""
        if len(key_hashes):
            self._route_among(choices, key_hashes, timestamps_ms, out, weights)
