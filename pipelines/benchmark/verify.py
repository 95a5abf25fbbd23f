"""Compares every window of a run with the workload's oracle in DuckDB."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the oracle says.

    Attributes:
        exact: Whether every window and every row is as it should be.
        windows: Windows compared.
        differences: What is not, in words; the first few.
    """

    exact: bool
    windows: int
    differences: list[str]
