"""The tasks of a benchmark: each is one call of `keyspread`, shown in the task's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from keyspread_dags.command import (
    data_call,
    grid_id,
    plan_call,
    program,
    runs_dir,
    unknown_parameter,
)
from keyspread_dags.process import Call


class GridStep(BaseOperator):
    """Calls `keyspread grid STEP GRID`.

    Args:
        step: Which step.
        asset: Is told of the grid when the step is done.
    """

    def __init__(self, *, step: str, asset: Asset | None = None, **kwargs: Any) -> None:
        if asset is not None:
            kwargs["outlets"] = [asset]
        super().__init__(**kwargs)
        self.step = step
        self.asset = asset
        self._call: Call | None = None

    def execute(self, context: Any) -> Any:
        """Call it; see `BaseOperator`."""
        grid = self.grid(context)
        said = self.keyspread("grid", self.step, grid, "--json")
        self.log.info("%s", said)
        if self.asset is not None:
            context["outlet_events"][self.asset].extra = {"grid": grid, **said}
        return said

    def grid(self, context: Any) -> str:
        """The grid of this DAG run."""
        return grid_id(context["dag"].dag_id, context["run_id"])

    def keyspread(self, *arguments: str) -> dict[str, Any]:
        """Call `keyspread`; gives the object it printed.

        Raises:
            AirflowFailException: A cell ran to its end and is not exact.
            AirflowException: It failed.
        """
        command = [program(), *arguments]
        self.log.info("$ %s", " ".join(command))
        runs_dir().mkdir(parents=True, exist_ok=True)
        self._call = Call(command, runs_dir(), self.log.info)
        outcome = self._call.run()
        if outcome.exit_code == 0:
            return outcome.said
        reason = self.reason(outcome.said) or outcome.reason
        if "exact" in outcome.said:
            # It ran, and its results are wrong: that is not to be tried away.
            raise AirflowFailException(reason)
        raise AirflowException(reason)

    def reason(self, said: dict[str, Any]) -> str:
        """Say what is wrong with what a step that failed has found; empty: nothing."""
        problems: Sequence[dict[str, Any]] = said.get("problems", ())
        return "; ".join(f"cell {p['number']} ({p['label']}) {p['reason']}" for p in problems)

    def on_kill(self) -> None:
        """Stop the call with all that belongs to it; see `BaseOperator`."""
        if self._call is not None:
            self._call.stop()


class PrepareStep(GridStep):
    """Makes the input if it has to be made, and plans the cells."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step="plan", **kwargs)

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Give the cells, each with number and title; see `BaseOperator`."""
        params = dict(context["params"])
        wrong = unknown_parameter(context["dag_run"].conf or (), context["dag"].params)
        if wrong is not None:
            raise AirflowFailException(wrong)
        making, source = data_call(params)
        if making:
            self.keyspread(*making)
        said = self.keyspread(*plan_call(self.grid(context), params, source))
        return [{"number": cell["number"], "title": cell["label"]} for cell in said["cells"]]


class CellStep(GridStep):
    """Runs one cell; another try starts it anew.

    Args:
        number: Of the cell.
        title: Its name in the grid view.
    """

    def __init__(self, *, number: int, title: str, **kwargs: Any) -> None:
        super().__init__(step="cell", **kwargs)
        self.number = number
        self.title = title

    def execute(self, context: Any) -> dict[str, Any]:
        """Give the figures that one looks at first; see `BaseOperator`."""
        said = self.keyspread("grid", "cell", self.grid(context), str(self.number), "--json")
        shown = ("partitioner", "partitions", "exact", "imbalance", "delivered_per_s", "latency_ms")
        figures = {name: said[name] for name in shown}
        self.log.info("%s", figures)
        return figures

    def reason(self, said: dict[str, Any]) -> str:
        """See `GridStep.reason`."""
        differences: Sequence[str] = said.get("differences", ())
        return f"not exact: {'; '.join(differences)}" if differences else ""


class CompareStep(GridStep):
    """Compares with the run before; fails where exactness was lost or something is slower."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step="compare", **kwargs)

    def execute(self, context: Any) -> dict[str, Any]:
        """Give the comparison; see `BaseOperator`."""
        grid = self.grid(context)
        said = self.keyspread("grid", "previous", grid, "--json")
        before = said["previous"]
        if before is None:
            self.log.info("the first of its kind: there is nothing to compare with")
            return said
        options = ("--compare", "--fail-on-regression", "--html", "--json")
        return self.keyspread("report", before, grid, *options)

    def reason(self, said: dict[str, Any]) -> str:
        """See `GridStep.reason`."""
        return str(said.get("sentence", ""))
