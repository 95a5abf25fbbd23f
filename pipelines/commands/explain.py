"""`keyspread explain`: how windows would be computed, and what that costs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pipelines.commands.errors import explains_errors
from pipelines.commands.options import AsJson


@explains_errors
def explain(
    window: Annotated[
        list[str],
        typer.Option(
            help='Size and slide, such as "60 min/1 min"; tumbling: "5 min"; by commas or again.'
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Print the plan of one or several windows on a stream: panes, combines, changes."""
    from partitioners.option_values import list_of
    from pipelines.explain import explain as in_words
    from pipelines.explain import plan_figures
    from pipelines.panes import Windows
    from pipelines.plan import WindowPlan

    windows = tuple(Windows.parse(text) for text in list_of(window))
    if as_json:
        typer.echo(json.dumps(plan_figures(WindowPlan(windows))))
    else:
        typer.echo(in_words(windows))
