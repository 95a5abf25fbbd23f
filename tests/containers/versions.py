"""The images that the stack is made of, as infra/versions.env pins them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def image(name: str) -> str:
    """Give an image: `image("KAFKA")`."""
    lines = (ROOT / "infra" / "versions.env").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return pins[f"{name}_IMAGE"]
