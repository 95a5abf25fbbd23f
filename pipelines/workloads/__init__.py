"""The workloads: each is one file with data, parse, query and oracle, in that order.

| name | file | key | values |
|---|---|---|---|
| `wordcount` | `wordcount.py` | word | count |
| `debs-q1` | `debs_q1.py` | route | count, last drop-off |
| `keyed-sum` | `keyed_sum.py` | key | count, sum |
"""

from __future__ import annotations

import inspect
from typing import Any

from partitioners.errors import InputError, nearest
from pipelines.workloads.base import Decoded, Parsed, Parser, Workload
from pipelines.workloads.debs_q1 import DebsQ1
from pipelines.workloads.keyed_sum import KeyedSum
from pipelines.workloads.wordcount import WordCount

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
    "debs-q1": DebsQ1,
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
