"""The parameters of the benchmark DAGs: what the form shows and what it and REST refuse.

Airflow checks a value against the schema of its parameter before a run begins; what no schema can
say (a partitioner's own options, a file that is not there) is refused by the first task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# As `partitioners.PARTITIONERS` has them; a test sees that they are the same.
PARTITIONERS = (
    "shuffle",
    "key_hash",
    "pkg",
    "potc",
    "on_greedy",
    "off_greedy",
    "cm",
    "am",
    "cam",
    "lm",
    "d_choices",
    "w_choices",
    "dalton",
    "dagreedy",
    "hot_fill",
    "key_groups",
    "prompt",
)
WORKLOADS = {
    "tpch": ("tpch-q1", "tpch-q3", "tpch-q6", "tpch-parts"),
    "debs": ("debs-q1", "debs-q2", "debs-fare", "debs-distance"),
    "gcm": ("gcm-q1", "gcm-q2"),
    "wordcount": ("wordcount", "wordcount-topk"),
}
DEFAULT_PARTITIONERS = ("key_hash", "pkg", "cam", "hot_fill")

_DURATION = r"[0-9]+(\.[0-9]+)? ?(ms|s|min|h|d)"
_NAMES = "|".join(PARTITIONERS)


def form(
    workloads: Sequence[str],
    *,
    partitioners: Sequence[str] = DEFAULT_PARTITIONERS,
    partitions: Sequence[int] = (4, 8),
    repetitions: int = 1,
    with_scale: bool = False,
) -> dict[str, dict[str, Any]]:
    """Give the parameters of a DAG, each as the arguments of an Airflow `Param`.

    Args:
        workloads: Which may be chosen; the first is the default.
        partitioners: Chosen by default.
        partitions: Chosen by default.
        repetitions: By default.
        with_scale: Whether the input may be generated at a scale.
    """
    fields: dict[str, dict[str, Any]] = {
        "workload": {
            "default": workloads[0],
            "type": "string",
            "enum": list(workloads),
            "description": "The query.",
        },
        "partitioners": {
            "default": list(partitioners),
            "type": "array",
            "examples": list(PARTITIONERS),
            "items": {
                "type": "string",
                "pattern": rf"^({_NAMES})(:[a-z_]+=[A-Za-z0-9._+-]+)*$",
            },
            "minItems": 1,
            "uniqueItems": True,
            "description": "Who chooses the partition; by REST also with options, as pkg:d=3.",
        },
        "partitions": {
            "default": list(partitions),
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 10_000},
            "minItems": 1,
            "uniqueItems": True,
            "description": "Partitions of the topic, such as [4, 8].",
        },
        "sources": {
            "default": [1],
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 10_000},
            "minItems": 1,
            "uniqueItems": True,
            "description": "Producers, each with load estimates of its own, such as [1, 4].",
        },
        "windows": {
            "default": [],
            "type": "array",
            "examples": ["30 min/1 min", "1 h/5 min", "10 min/10 min", "45 min/1 s"],
            "items": {"type": "string", "pattern": rf"^{_DURATION}(/{_DURATION})?$"},
            "uniqueItems": True,
            "description": "Size/slide of the windows; none: the workload's own.",
        },
        "speed": {
            "default": "max",
            "type": "string",
            "pattern": r"^(max|[0-9]*[1-9][0-9]*(\.[0-9]+)?(x|/s))$",
            "description": "max; 60x: event time so much faster; 5000/s: records per second.",
        },
        "repetitions": {
            "default": repetitions,
            "type": "integer",
            "minimum": 1,
            "maximum": 100,
            "description": "How often each combination is run.",
        },
        "shards": {
            "default": 2,
            "type": "integer",
            "minimum": 1,
            "maximum": 1_000,
            "description": "Reducers.",
        },
    }
    if with_scale:
        fields["scale"] = {
            "default": 0.01,
            "type": "number",
            "minimum": 0.001,
            "maximum": 1_000,
            "description": "Scale factor of TPC-H; 0.01 ships, others are generated once.",
        }
    fields["input"] = {
        "default": None,
        "type": ["null", "string"],
        "minLength": 1,
        "description": "File or folder where the tasks run; empty: what ships.",
    }
    return fields
