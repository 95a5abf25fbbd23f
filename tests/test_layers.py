"""Who may know whom: the engine no workload, the partitioners nothing of the pipelines."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Programs over everything; the last imports all beforehand that Spark's workers may want.
ABOVE = {"cli.py", "demo.py", "verification.py", "worker_daemon.py"}


def imported(path: Path) -> set[str]:
    """Modules that a file imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


def test_the_engine_knows_no_workload_run_or_command() -> None:
    files = [path for path in (ROOT / "pipelines").glob("*.py") if path.name not in ABOVE]
    assert ROOT / "pipelines" / "events.py" in files
    above = ("pipelines.workloads", "pipelines.benchmark", "pipelines.commands")
    assert {
        f"{path.name}: {module}"
        for path in files
        for module in imported(path)
        if module.startswith(above)
    } == set()


def test_partitioners_know_no_pipeline() -> None:
    files = list((ROOT / "partitioners").rglob("*.py"))
    assert len(files) > 30
    assert not [
        path for path in files for module in imported(path) if module.startswith("pipelines")
    ]
