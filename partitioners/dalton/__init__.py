"""Dalton: hot keys are spread by what was learned of each partition; the rest goes home.

A key is hot when its load in the interval reaches a fair share of the last interval's load. A hot
key has a row of Q-values, one per partition; each of its records goes to the best one, or, one in
ten, anywhere. The reward of a choice falls with the load of the partition and with the number of
partitions that hold the key, and moves the Q-value towards it. So a hot key stays where it is until
that partition is too full, and a key that cools down is whole again when the window has passed.

Paper: Zapridou, Mytilinis, Ailamaki, "Dalton: Learned Partitioning for Distributed Data Streams",
PVLDB 16(3), 2022: Algorithm 1 and sections 3.2, 3.3 (one producer); Algorithm 2 and section 4.1
(several producers); section 4.2 (key forwarding; ``Dalton.is_whole`` is what it needs).

============= ==================================================================================
symbol        here
============= ==================================================================================
n             ``num_partitions``
W, s          ``window_ms``, ``slide_ms``
STATS_WIN     ``interval_ms``, also DSYNC, the time between two meetings of several producers
f(k), L       load of a key in this interval; load of the last one, hot is f(k) >= L / n
Q(k, i)       ``values``, leaves of a winner tree per row
gamma         ``step_size``
epsilon       ``exploration``
p1, p2        ``balance_weight``, 1 - ``balance_weight``
R, CI, CA     ``step._reward`` and its two terms (equations 3 and 4)
||X(k)||      ``ROW_SPLIT``, partitions that hold the key in the window
GL            ``GlobalTable.load``
============= ==================================================================================

Map: ``config`` the options; ``partitioner`` the class; ``step`` Algorithm 1, record by record;
``frequency`` counts of keys; ``qtable`` the rows; ``draws`` random numbers; ``state`` the arrays.

Cost per record: O(1) for keys that are not hot, whatever n; O(log n) for hot ones, and O(n) for
the few explorations of a key at its split limit. Memory: 1 MB for the counts of 10,000 keys,
8 bytes * n per slide of the window, about 30 bytes * n per hot key, of which there are at most n
per interval and usually a handful; it does not grow with the number of keys. Not for you where the
order of one key's records matters; where hot keys turn hot and cold within one interval; or where
replication is dear and skew is high: exploration brings every hot key to nearly all partitions.

Departures from the paper, none of which changes a choice on a stream without gaps: Loads may be
weighted. A key needs a load of 2 to be hot, and at most n keys turn hot in one interval (Theorem
3.4), so that the first interval after a silence does not make every key hot. In the first interval
no key is hot. An interval without records leaves the threshold as it is. Keys first seen after
``exact_keys`` others are counted by a sketch in the same interval; the paper changes over between
two intervals.

The authors' code has a limit on splitting that the paper does not mention: it starts at 2 and rises
by one, up to 6, when 70 % of the hot keys have reached it. With 64 partitions a key of a third of
the stream then has 6 of the 21 partitions it needs. Here it rises up to ``max_split``, by default
all partitions; ``first_split=None`` leaves the limit out. Their fragmentation never expires; ours
does. ``rules="published"`` gives their details (strict comparison with a whole threshold, a row
that lives a tick longer, one more slide in the window, fragmentation that stays) and with
``max_split=6``, ``seed=3`` and their homes their very choices.
"""

from partitioners.dalton.channels import AgentChannel, MemoryChannel, ReducerChannel
from partitioners.dalton.config import DaltonConfig
from partitioners.dalton.cooperative import CooperativeConfig, CooperativeDalton
from partitioners.dalton.messages import GlobalTable, LeaveMessage, SyncMessage
from partitioners.dalton.partitioner import Dalton
from partitioners.dalton.reducer import QTableReducer, ReducerConfig
from partitioners.dalton.service import run_reducer

__all__ = [
    "AgentChannel",
    "CooperativeConfig",
    "CooperativeDalton",
    "Dalton",
    "DaltonConfig",
    "GlobalTable",
    "LeaveMessage",
    "MemoryChannel",
    "QTableReducer",
    "ReducerChannel",
    "ReducerConfig",
    "SyncMessage",
    "run_reducer",
]
