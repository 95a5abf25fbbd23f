"""W-Choices: keys of the head go to the least loaded partition of all, the tail has two choices.

Balances any skew, for a head key may use every partition; only the head is spread that far.

Paper: Nasir et al., "When Two Choices Are Not Enough: Balancing at Scale in Distributed Stream
Processing", ICDE 2016, algorithm W-Choices (all n workers for the head).

======== =============================================================================
symbol   here
======== =============================================================================
H        keys of the head, ``head()``
theta    ``theta``, least share of a head key; 1 / (5 n)
n        ``num_partitions``
======== =============================================================================

Cost per record O(log c), O(n) for a head key; memory per entry of the head table 80 bytes, and
4 min(n, 64) more for its key's candidates. Not for you where a hot key's state per partition is
dear: ``d_choices`` gives it as few partitions as will do.

Departures: the head test is count >= theta * total with the sketch's count, an upper bound (the
authors' Storm code compares with a total that stays 0). The head table is the source's own.
``window_ms`` restarts loads and table with each window. ``rules="published"`` decides as the
authors' simulator does, record by record; the list of its differences from the paper stands in
``partitioners.head_choices``.
"""

from __future__ import annotations

from dataclasses import dataclass

from partitioners.head_choices import HeadConfig, HeadPartitioner


@dataclass(frozen=True, kw_only=True)
class WChoicesConfig(HeadConfig):
    """Options of ``w_choices``: those every algorithm with a head table has."""


class WChoices(HeadPartitioner):
    """W-Choices; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> w_choices = create("w_choices", 4)
        >>> partitions = w_choices.partition_batch(["hot"] * 400)
        >>> [int((partitions == p).sum()) for p in range(4)]
        [100, 100, 100, 100]
    """

    name = "w_choices"
    config_type = WChoicesConfig
    config: WChoicesConfig
