"""`keyspread doctor`: what on this machine a run would trip over."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from pipelines.commands.errors import EXIT_FAILED, explains_errors
from pipelines.commands.options import DEFAULT_RUNS_DIR, AsJson, RunsDir

if TYPE_CHECKING:
    from pipelines.doctor import Finding


@explains_errors
def doctor(runs_dir: RunsDir = DEFAULT_RUNS_DIR, as_json: AsJson = False) -> None:
    """Check Java, Python, packages, memory, disk and ports, and say what to do."""
    from pipelines.doctor import examine

    findings = examine(runs_dir)
    ok = all(finding.ok for finding in findings)
    if as_json:
        typer.echo(json.dumps({"ok": ok, "findings": [asdict(finding) for finding in findings]}))
    else:
        _print(findings)
        typer.echo("all is well" if ok else "mend what is marked with !!, then ask again")
    if not ok:
        raise typer.Exit(EXIT_FAILED)


def _print(findings: list[Finding]) -> None:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        typer.echo(f"{'ok' if finding.ok else '!!'} {finding.name:<{width}}  {finding.found}")
        if not finding.ok:
            typer.echo(f"   {'':<{width}}  -> {finding.mend}")
