"""Puts sample, comparison and recommendation together."""

from __future__ import annotations

from rich.progress import Progress

from partitioners import PARTITIONERS
from pipelines.advise.compare import PRESENT, Plan, compare, present
from pipelines.advise.recommend import code_to_paste, holistic_rule, recommend
from pipelines.advise.sample import Sample
from pipelines.advise.show import Advice, hottest
from pipelines.consoles import stderr_console

ANY_BOOTSTRAP = "localhost:9092"
ANY_TOPIC = "my-topic"


def make_advice(
    sample: Sample,
    plan: Plan,
    *,
    bootstrap: str | None,
    keeps_order: bool,
    redact: bool,
    quiet: bool,
) -> Advice:
    """Try every partitioner on a sample, and choose.

    Args:
        sample: The stream.
        plan: What for.
        bootstrap: Servers for the lines to paste; None: an example.
        keeps_order: Whether the records of a key have to stay in order.
        redact: Show hashes of keys.
        quiet: Show no progress.
    """
    console = stderr_console()
    if not (quiet or console.is_terminal):
        # Where no bar is drawn, a first run would be silent for minutes.
        console.print(
            f"trying {len(PARTITIONERS)} partitioners on {sample.num_records:,} records; the first "
            "time on a machine they are compiled, which takes a minute or two ...",
            highlight=False,
            soft_wrap=True,
        )
    with Progress(console=console, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("trying partitioners", total=len(PARTITIONERS))
        figures = compare(
            sample.stream, sample.num_null, plan, on_row=lambda _row: bar.advance(task)
        )
    now = present(sample, plan)
    chosen = recommend(figures, sample, plan, keeps_order=keeps_order, now=now)
    lines = ""
    if chosen.partitioner != PRESENT:
        lines = code_to_paste(
            chosen.partitioner, plan, sample.topic or ANY_TOPIC, bootstrap or ANY_BOOTSTRAP
        )
    return Advice(
        sample=sample,
        plan=plan,
        hot_keys=hottest(sample, redact=redact),
        present=now,
        figures=figures,
        holistic=holistic_rule(sample.stream, plan),
        recommendation=chosen,
        code=lines,
    )
