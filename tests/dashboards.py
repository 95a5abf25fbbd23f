"""Grafana's dashboards as Prometheus is asked by them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

BOARDS = sorted((Path(__file__).parent.parent / "infra/grafana/dashboards").glob("*.json"))
# As the provisioned source has it: four times its interval of scraping.
RATE_INTERVAL = "20s"
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


class Panel(NamedTuple):
    """A panel that shows something.

    Attributes:
        title: Its name.
        expressions: What it asks, with variables.
    """

    title: str
    expressions: tuple[str, ...]


def read_board(path: Path) -> dict[str, Any]:
    """Read a dashboard."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def panels(board: Mapping[str, Any]) -> list[Panel]:
    """Give the panels of a dashboard, without the headings between them."""
    return [
        Panel(panel["title"], tuple(target["expr"] for target in panel["targets"]))
        for panel in board["panels"]
        if panel["type"] != "row"
    ]


def variables(expression: str) -> set[str]:
    """Give the names of the variables that an expression uses."""
    return {braced or plain for braced, plain in _VARIABLE.findall(expression)}


def filled_in(expression: str, values: Mapping[str, str]) -> str:
    """Put values in the place of variables; one without a value is a KeyError."""
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], expression)


def label_queries(board: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Give the variables that are chosen from a list: metric and label that the list is of."""
    asked = {
        each["name"]: re.fullmatch(r"label_values\((\w+), (\w+)\)", each["query"]["query"])
        for each in board["templating"]["list"]
        if each["type"] == "query"
    }
    assert all(asked.values()), asked
    return {name: (found[1], found[2]) for name, found in asked.items() if found}


def has_values(panel: Panel, values: Mapping[str, str], ask: Callable[[str], list[Any]]) -> bool:
    """Say whether each expression of a panel has a number for something now.

    Args:
        panel: The panel.
        values: Of the variables.
        ask: Sends an expression to Prometheus; gives the series of the answer.
    """
    series = [ask(filled_in(expression, values)) for expression in panel.expressions]
    return all(any(math.isfinite(float(each["value"][1])) for each in some) for some in series)
