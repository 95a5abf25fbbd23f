"""`keyspread bench`: the benchmarks of single parts."""

from __future__ import annotations

import typer

bench = typer.Typer(help="Measure single parts.", no_args_is_help=True)
