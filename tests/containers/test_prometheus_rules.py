"""Alerts and recording rules do what their tests say, by the promtool of the stack's Prometheus."""

from __future__ import annotations

import subprocess

import pytest

from tests.containers.versions import ROOT, image

pytestmark = pytest.mark.containers


def test_rules() -> None:
    rules = ROOT / "infra" / "prometheus"
    mounted = ["--volume", f"{rules}:/rules:ro", "--entrypoint", "promtool", "--network", "none"]
    command = ["docker", "run", "--rm", *mounted, image("PROMETHEUS"), "test", "rules"]
    done = subprocess.run(
        [*command, "/rules/alerts_test.yml"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout + done.stderr
