"""The workloads: each is one file with data, parse, query and oracle, in that order.

| name | file | key | values |
|---|---|---|---|
| `wordcount`, `wordcount-topk` | `wordcount.py` | word | count; of the ten most frequent |
| `debs-q1` | `debs_q1.py` | route | count, last drop-off |
| `debs-q2` | `debs_q2.py` | 250 m cell | profitability, median profit, empty taxis |
| `debs-fare`, `debs-distance` | `debs_taxi.py` | medallion | total fare, total distance |
| `gcm-q1`, `gcm-q2` | `gcm.py` | scheduling class, job | total CPU, mean CPU |
| `tpch-q1` | `tpch.py` | return flag, line status | the eight columns of Q1 |
| `tpch-q3` | `tpch_q3.py` | order, its date and priority | revenue |
| `tpch-q6` | `tpch.py` | none | revenue |
| `tpch-parts` | `tpch.py` | part | quantity |
| `clustering` | `clustering.py` | post code | clusters, disagreements |
| `keyed-sum` | `keyed_sum.py` | key | count, sum |
"""

from __future__ import annotations

import inspect
from typing import Any

from partitioners.errors import InputError, nearest
from pipelines.workloads.base import Decoded, Parsed, Parser, Workload
from pipelines.workloads.clustering import Clustering
from pipelines.workloads.debs_q1 import DebsQ1
from pipelines.workloads.debs_q2 import DebsQ2
from pipelines.workloads.debs_taxi import DebsDistance, DebsFare
from pipelines.workloads.gcm import GcmQ1, GcmQ2
from pipelines.workloads.keyed_sum import KeyedSum
from pipelines.workloads.tpch import TpchParts, TpchQ1, TpchQ6
from pipelines.workloads.tpch_q3 import TpchQ3
from pipelines.workloads.wordcount import TopWords, WordCount

__all__ = [
    "WORKLOADS",
    "Decoded",
    "KeyedSum",
    "Parsed",
    "Parser",
    "WordCount",
    "Workload",
    "create_workload",
]

WORKLOADS: dict[str, type[Workload]] = {
    "wordcount": WordCount,
    "wordcount-topk": TopWords,
    "debs-q1": DebsQ1,
    "debs-q2": DebsQ2,
    "debs-fare": DebsFare,
    "debs-distance": DebsDistance,
    "gcm-q1": GcmQ1,
    "gcm-q2": GcmQ2,
    "tpch-q1": TpchQ1,
    "tpch-q3": TpchQ3,
    "tpch-q6": TpchQ6,
    "tpch-parts": TpchParts,
    "clustering": Clustering,
    "keyed-sum": KeyedSum,
}


def create_workload(name: str, **options: Any) -> Workload:
    """Make a workload by its name.

    Args:
        name: A key of `WORKLOADS`.
        options: What its constructor takes.

    Raises:
        InputError: Unknown name or option, or an option out of range.

    Example:
        >>> create_workload("wordcount", event_rate=100).name
        'wordcount'
    """
    if name not in WORKLOADS:
        raise InputError(f'unknown workload "{name}": {nearest(name, WORKLOADS)}')
    known = [
        p for p in inspect.signature(WORKLOADS[name]).parameters if p not in ("args", "kwargs")
    ]
    for option in options:
        if option not in known:
            hint = nearest(option, known) if known else "it takes no options"
            raise InputError(f'unknown option "{option}" of workload {name}: {hint}')
    return WORKLOADS[name](**options)
