"""The parts of a run, made from its configuration; and what can be refused before it starts."""

from __future__ import annotations

import dataclasses

from partitioners import PARTITIONERS, Partitioner, create
from partitioners.errors import InputError
from pipelines.benchmark.content import TopicContent
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.watermark_clock import WatermarkClock
from pipelines.text_input import InputLines, check_input
from pipelines.workloads import Workload, create_workload


def make_workload(config: RunConfig) -> Workload:
    """Make the workload of a run.

    Raises:
        InputError: Unknown name or option.
    """
    return create_workload(config.workload, **config.workload_options)


def make_partitioners(config: RunConfig) -> list[Partitioner]:
    """Make the partitioners of a run, one for each source.

    Those that work by sliding windows get the run's, unless options say otherwise.

    Raises:
        InputError: Unknown name or option, or an option out of range.
    """
    kind = PARTITIONERS.get(config.partitioner)
    known = {field.name for field in dataclasses.fields(kind.config_type)} if kind else set()
    options = dict(config.options)
    # Others have a `window_ms` too, which restarts them; it stays off unless asked for.
    if {"window_ms", "slide_ms"} <= known and not {"window_ms", "slide_ms"} & options.keys():
        options |= {"window_ms": config.window_ms, "slide_ms": config.slide_ms}
    return [create(config.partitioner, config.partitions, **options) for _ in range(config.sources)]


def check_run(config: RunConfig) -> None:
    """Refuse, before anything is started, what cannot work.

    Raises:
        InputError: A name, an option, or the input is no good; or it holds no record.
    """
    config.check()
    workload = make_workload(config)
    make_partitioners(config)
    for path in config.inputs:
        check_input(path, config.encoding)
    reasons: list[str] = []
    parser = workload.parser()
    lines = InputLines(config.inputs, config.encoding, lambda line: reasons.append(line.reason))
    for chunk in lines:
        parsed = parser.parse(chunk)
        if len(parsed.table):
            return
        reasons += [line.reason for line in parsed.rejected]
    first = f": {len(reasons):,} bad lines, the first because {reasons[0]}" if reasons else ""
    raise InputError(
        f"no record for {config.workload} in {', '.join(config.inputs)}{first}; give the input "
        "that belongs to the workload"
    )


def make_content(config: RunConfig) -> TopicContent:
    """Make what decides the content of a run's topic."""
    clock = WatermarkClock(
        slide_ms=config.slide_ms,
        lateness_ms=config.lateness_ms,
        every_records=config.punctuation_records,
    )
    return TopicContent(make_partitioners(config), clock)
