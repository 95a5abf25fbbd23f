"""Group affinity: keys stay whole, and new ones go where the fewest keys are.

A key seen in the window goes where it went before; a new key goes to the candidate with
the fewest distinct keys in the window. So a key's records stay together and no
partial results need merging, as under hashing, but the keys spread by load, not by chance. When
the window ends (or, sliding, when no live pane holds a record of the key) a key may move.

Paper: Katsipoulakis, Labrinidis, Chrysanthis: "A Holistic View of Stream Partitioning Costs",
PVLDB 10(11), 2017, section 4.2, Algorithm 3 (AM).

============= ==============================================================================
symbol        here
============= ==============================================================================
V             ``num_partitions``
M, w          ``d``, ``window_ms``
C[i]          the table of keys; ``cardinalities[i]``
L[i]          ``loads[i]``
c1, c2        columns of ``candidates``
============= ==============================================================================

Cost per record O(d). Memory, exact: 33 to 130 bytes for each live key, and 16 bytes per partition
and pane; ``hll``: 512 kB, and 4 kB per partition if tumbling, else 545 kB.
``state_bytes`` says it. Not for you where one key is more than a fair share of the load: it stays
on one partition (``pkg``, ``d_choices`` split it).

Departures: any d. A key is whole in every window of a slide too: between two records of a key in
one window there is always a live pane that holds the first. (A late record counts as of now, so it
does not bring back a place already forgotten.) With ``hll`` the paper asks the sketch whether it
holds the key, which splits keys; we keep a choice per slot of a fixed table instead, see
``partitioners.cardinality``. The paper's draws go to c1; its authors' code gives them to c2,
and lets candidates coincide: ``tie="last"``, ``distinct=False``. Choices given to ``select`` must
be the same for every record of a key, or the key moves.
"""

from __future__ import annotations

from partitioners.affinity import AffinityPartitioner


class AM(AffinityPartitioner):
    """Group affinity; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> am = create("am", 4)
        >>> len({am.partition("hot", timestamp_ms=t) for t in range(0, 60_000, 1000)})
        1
    """

    name = "am"
    counts_keys = True
