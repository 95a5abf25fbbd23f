"""The demo, and a run with all defaults: real input, real parts, exact, and nothing left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.programs import Program

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.mark.timeout(900)
def test_the_demo_is_exact_and_leaves_nothing_running(tmp_path: Path) -> None:
    program = Program("demo", "--runs-dir", tmp_path)
    program.wait_for_line("stopping Spark")
    code, out, err = program.finish()
    assert code == 0, err
    assert program.survivors() == []
    assert out.count("exact: yes") == 4
    for words in (
        "debs-q1 · key_hash · 8 partitions",
        "debs-q1 · cam · 8 partitions",
        "wordcount · key_hash · 8 partitions",
        "wordcount · pkg · 8 partitions",
        "10,614 produced = 10,614 on time + 0 late; 185 ignored",
        "partition 7",
        "last full window [2013-01-01 ",
    ):
        assert words in out
    cells = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*/cells/*.json"))]
    assert [cell["exact"] for cell in cells] == [True] * 4
    by_name = {(cell["workload"], cell["partitioner"]): cell for cell in cells}
    hashed, split = by_name["wordcount", "key_hash"], by_name["wordcount", "pkg"]
    assert split["imbalance"] < 0.01 < hashed["imbalance"]
    assert hashed["replication_factor"] == 1.0
    assert 1.0 < split["replication_factor"] <= 2.0
    assert len(list(tmp_path.glob("*-[1-4]/report.html"))) == 4
    assert "-*/report.html" in out.splitlines()[-1]
    # Only what is worth keeping is kept.
    assert not list(tmp_path.glob(".demo-*"))
    assert not list(tmp_path.glob("*/checkpoint"))
