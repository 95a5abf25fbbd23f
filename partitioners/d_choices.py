"""D-Choices: keys of the head get d candidates, d as small as balance allows; the tail has two.

d is found from the shares of the head keys. For every prefix of the head, the load of the keys that
may only use the partitions the prefix covers must fit on these partitions: the least d that meets
all these constraints is taken, and all partitions where none below n does.

Paper: Nasir et al., "When Two Choices Are Not Enough: Balancing at Scale in Distributed Stream
Processing", ICDE 2016, algorithm D-Choices (finding d: the constraint of each prefix).

======== =============================================================================
symbol   here
======== =============================================================================
H        keys of the head, ``head()``
theta    ``theta``, least share of a head key; 1 / (5 n)
p_i      share of the i-th heaviest key
d        ``head_choices``, found anew as shares change
b_h      ``expected_partitions``, partitions the candidates of h keys cover on average
epsilon  ``epsilon``, imbalance allowed
n        ``num_partitions``
======== =============================================================================

The constraint of prefix h: p_1 + .. + p_h + (b_h / n)^d * (rest of the head)
+ (b_h / n)^2 * tail <= b_h * (1 / n + epsilon), with d from max(2, p_1 n) up.

Cost per record O(log c + d); memory per entry of the head table 80 bytes, and 4 min(n, 64) more
for its key's candidates. Not for you where order per key matters; on mild skew it is ``pkg``.

Departures: d is found anew only when the stream has grown by ``refresh_fraction`` since the last
time, not at every head record; no share can have changed by more than that fraction of the stream
in between. With ``distinct`` candidates b_h is n - n (1 - d / n)^h, the same average for candidates
that never coincide. The head test is as in ``w_choices``. ``window_ms`` restarts all with each
window. ``rules="published"`` decides as the authors' simulator does, record by record; the list of
its differences from the paper stands in ``partitioners.head_choices``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partitioners.head_choices import HeadConfig, HeadPartitioner


@dataclass(frozen=True, kw_only=True)
class DChoicesConfig(HeadConfig):
    """Options of ``d_choices``.

    Attributes:
        epsilon: Imbalance allowed, as a share of the stream per partition.
        refresh_fraction: Growth of the stream after which d is found anew; 0: at each head record,
            as always with ``rules="published"``.
    """

    epsilon: float = 1e-4
    refresh_fraction: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_range("epsilon", 0.0, 1.0)
        self.require_range("refresh_fraction", 0.0, 10.0)


class DChoices(HeadPartitioner):
    """D-Choices; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> d_choices = create("d_choices", 8)
        >>> _ = d_choices.partition_batch([f"key-{i % 1000}" for i in range(10_000)])
        >>> d_choices.head(), d_choices.head_choices  # no skew: two choices do
        ([], 2)
    """

    name = "d_choices"
    config_type = DChoicesConfig
    config: DChoicesConfig

    def _adaptive(self) -> tuple[bool, float, float]:
        published = self.config.rules == "published"
        # The simulator takes epsilon as a 32-bit float.
        epsilon = float(np.float32(self.config.epsilon)) if published else self.config.epsilon
        return True, epsilon, self.config.refresh_fraction
