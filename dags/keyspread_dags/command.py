"""From the parameters of a DAG run to calls of `keyspread`."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
# The TPC-H data that ships; any other scale is generated first.
SHIPPED_SCALE = 0.01
_LONGEST_ID = 100


def program() -> str:
    """Say which `keyspread` to call: `KEYSPREAD_BIN`, else that of the checkout, else on PATH."""
    named = os.environ.get("KEYSPREAD_BIN")
    own = ROOT / ".venv" / "bin" / "keyspread"
    return named or (str(own) if own.exists() else shutil.which("keyspread") or str(own))


def runs_dir() -> Path:
    """Say where runs are kept: `KEYSPREAD_RUNS_DIR`, else in the checkout."""
    return Path(os.environ.get("KEYSPREAD_RUNS_DIR") or ROOT / "runs").absolute()


def unknown_parameter(given: Iterable[str], known: Iterable[str]) -> str | None:
    """Say which parameter of a trigger there is not: Airflow takes any, and would leave it out.

    Args:
        given: Names that the trigger gave.
        known: Those of the DAG.

    Example:
        >>> unknown_parameter(["partitons"], ["partitions", "speed"])
        'no parameter "partitons": the DAG has partitions, speed'
    """
    names = sorted(known)
    for name in given:
        if name not in names:
            return f'no parameter "{name}": the DAG has {", ".join(names)}'
    return None


def grid_id(dag_id: str, run_id: str) -> str:
    """Name the grid of a DAG run: the same at each try of each task, and no other run's.

    Args:
        dag_id: Of the DAG.
        run_id: Of its run; anything that Airflow takes.

    Example:
        >>> grid_id("benchmark_debs", "manual__2026-11-28T10:00:00+00:00")
        'benchmark-debs-manual-2026-11-28T10-00-00-00-00-3b1f'
    """
    words = re.sub(r"[^A-Za-z0-9]+", "-", f"{dag_id}-{run_id}").strip("-")
    # Two run ids may differ in a sign only.
    digest = hashlib.sha256(f"{dag_id} {run_id}".encode()).hexdigest()[:4]
    return f"{words[:_LONGEST_ID].strip('-')}-{digest}"


def data_call(params: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """Give the call that makes a run's input, if it has to be made, and where it then is.

    Args:
        params: Of the DAG run.

    Example:
        >>> data_call({"scale": 0.01, "input": None})
        ([], None)
        >>> data_call({"scale": 0.1, "input": None})[0][:5]
        ['data', 'prepare', 'tpch', '--scale=0.1', '--json']
    """
    scale = params.get("scale", SHIPPED_SCALE)
    if params.get("input") is not None or scale == SHIPPED_SCALE:
        return [], params.get("input")
    folder = runs_dir() / "data" / f"tpch-{scale:g}"
    return ["data", "prepare", "tpch", f"--scale={scale:g}", "--json", f"--out={folder}"], str(
        folder
    )


def plan_call(grid: str, params: Mapping[str, Any], source: str | None) -> list[str]:
    """Give the call that plans the cells.

    Args:
        grid: Its id.
        params: Of the DAG run.
        source: The input; None: what ships.

    Example:
        >>> plan_call(
        ...     "g", {"workload": "debs-q1", "partitioners": ["pkg"], "speed": "60x"}, "t.gz"
        ... )
        ['grid', 'plan', 'debs-q1', '--id=g', '--json', '--partitioner=pkg', '--speedup=60', \
'--input=t.gz']
    """
    call = ["grid", "plan", params["workload"], f"--id={grid}", "--json"]
    for option, name in (
        ("partitioner", "partitioners"),
        ("partitions", "partitions"),
        ("sources", "sources"),
        ("windows", "windows"),
    ):
        call += [f"--{option}={value}" for value in params.get(name) or ()]
    for name in ("repetitions", "shards"):
        if name in params:
            call.append(f"--{name}={params[name]}")
    speed = params.get("speed", "max")
    if speed == "max":
        pass
    elif speed.endswith("x"):
        call.append(f"--speedup={speed.removesuffix('x')}")
    else:
        call.append(f"--rate={speed.removesuffix('/s')}")
    if source is not None:
        call.append(f"--input={source}")
    return call
