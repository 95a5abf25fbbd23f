"""`keyspread verify` and the new workloads through the real broker and the real Spark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from partitioners import PARTITIONERS
from partitioners.errors import InputError
from pipelines.verification import cases, known_partitioners
from pipelines.workloads import WORKLOADS

pytestmark = [pytest.mark.broker, pytest.mark.spark]

KEYSPREAD = Path(sys.executable).with_name("keyspread")
# Each workload once; the command without options runs all of them with all partitioners.
SUBSET = "gcm-q1,debs-fare,debs-distance,tpch-q1,tpch-q3,tpch-q6,tpch-parts,wordcount-topk"


def test_new_workloads_are_exact_on_the_real_parts() -> None:
    command = [str(KEYSPREAD), "verify", "--workloads", SUBSET, "--partitioners", "pkg", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = json.loads(done.stdout)["cells"]
    assert [cell["verdict"] for cell in cells] == ["exact"] * 11
    assert {cell["workload"] for cell in cells} == set(SUBSET.split(","))
    assert all(cell["records"] > 0 and cell["windows"] > 0 for cell in cells)


def test_all_workloads_and_partitioners_are_run_unless_named() -> None:
    shipped = {name for name, kind in WORKLOADS.items() if kind.default_input}
    assert {name for name, _ in cases([])} == shipped == set(WORKLOADS) - {"keyed-sum"}
    whole = [name for name, options in cases([]) if options == {"whole": True}]
    assert sorted(whole) == ["tpch-q1", "tpch-q3", "tpch-q6"]
    assert ("debs-q1", {"per_event": True}) in cases([])
    assert [options for _, options in cases(["clustering"])] == [{}, {"algorithm": "greedy"}]
    assert len(cases([])) == 18
    assert known_partitioners([]) == list(PARTITIONERS)
    with pytest.raises(InputError, match='did you mean "gcm-q2"'):
        cases(["gmc-q2"])
    with pytest.raises(InputError, match='unknown partitioner "pgk"'):
        known_partitioners(["pgk"])
