"""The parts of a run, made from its configuration; and what can be refused before it starts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from partitioners import PARTITIONERS, Partitioner, create
from partitioners.errors import InputError
from partitioners.greedy import OffGreedy
from partitioners.hashing import hash_keys
from pipelines.benchmark.content import TopicContent
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.watermark_clock import WatermarkClock
from pipelines.events import PerEvent
from pipelines.input_files import is_pipe
from pipelines.panes import Windows
from pipelines.plan import WindowPlan
from pipelines.text_input import NOT_DECODED, InputLines, check_input
from pipelines.workloads import Workload, create_workload


def make_workload(config: RunConfig) -> Workload:
    """Make the workload of a run.

    Raises:
        InputError: Unknown name or option.
    """
    return create_workload(config.workload, **config.workload_options)


def make_windows(config: RunConfig) -> list[Windows] | PerEvent:
    """Make the windows of a run.

    Raises:
        InputError: Several where there can be one only.
    """
    if make_workload(config).per_event:
        if config.more_windows:
            raise InputError("per event there is one window: leave --window out")
        return PerEvent(config.window_ms)
    return [Windows(size_ms, slide_ms) for size_ms, slide_ms in config.windows]


def shipped_config(
    run_id: str,
    name: str,
    partitioner: str,
    partitions: int,
    options: Mapping[str, Any] | None = None,
) -> RunConfig:
    """Configure a run of a workload on the data that ships with it, in its own windows.

    Args:
        run_id: Of the run.
        name: The workload; one with a `default_input`.
        partitioner: Its name.
        partitions: Of the topic.
        options: The workload's.
    """
    workload = create_workload(name, **(options or {}))
    assert workload.default_input is not None
    return RunConfig(
        run_id=run_id,
        workload=name,
        workload_options=dict(options or {}),
        inputs=(str(workload.default_input),),
        encoding=workload.default_encoding,
        partitioner=partitioner,
        partitions=partitions,
        shards=1 if workload.per_event else 2,
        window_ms=workload.default_window_ms,
        slide_ms=workload.default_slide_ms,
        emit=workload.default_emit,
        top=workload.k,
    )


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
    check_options(config)
    check_inputs(config)


def check_options(config: RunConfig) -> None:
    """Refuse what can be seen to be wrong without a look at the input.

    Raises:
        InputError: A name or an option is no good.
    """
    config.check()
    workload = make_workload(config)
    for size_ms, slide_ms in config.windows:
        workload.check_windows(size_ms, slide_ms)
    windows = make_windows(config)
    if isinstance(windows, PerEvent):
        if config.shards != 1 or config.emit != "all":
            raise InputError(
                "per event one reducer puts all records in order, and each row says all: leave "
                "--shards and --emit out"
            )
    else:
        WindowPlan.of(windows, workload.aggregates)
    make_partitioners(config)


def check_inputs(config: RunConfig) -> None:
    """Refuse an input that cannot be read to its end, or holds no record.

    Raises:
        InputError: It is so.
    """
    for path in config.inputs:
        if is_pipe(path):
            raise InputError(
                f"{path} can be read once only, and a run reads its input several times: save it "
                "to a file and name that with --input"
            )
        check_input(path, config.encoding)
    reasons: list[str] = []
    parser = make_workload(config).parser()
    lines = InputLines(config.inputs, config.encoding, lambda line: reasons.append(line.reason))
    for chunk in lines:
        parsed = parser.parse(chunk)
        if len(parsed.table):
            return
        reasons += [line.reason for line in parsed.rejected]
    first = f": {len(reasons):,} bad lines, the first because {reasons[0]}" if reasons else ""
    mend = "give the input that belongs to the workload"
    if reasons and reasons[0] == NOT_DECODED:
        mend = f"name its encoding with --encoding instead of {config.encoding}"
    raise InputError(
        f"no record for {config.workload} in {', '.join(config.inputs)}{first}; {mend}"
    )


def make_content(config: RunConfig) -> TopicContent:
    """Make what decides the content of a run's topic.

    `off_greedy` has to know the load of every key beforehand: it costs one more pass over the
    input.
    """
    clock = WatermarkClock(
        # Windows of every kind end at multiples of it.
        slide_ms=math.gcd(*(slide_ms for _, slide_ms in config.windows)),
        lateness_ms=config.lateness_ms,
        every_records=config.punctuation_records,
    )
    partitioners = make_partitioners(config)
    offline = [each for each in partitioners if isinstance(each, OffGreedy)]
    if offline:
        hashes, loads = _key_loads(config)
        for partitioner in offline:
            partitioner.fit(hashes, loads)
    return TopicContent(partitioners, clock)


def _key_loads(config: RunConfig) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    parser = make_workload(config).parser()
    hashes, loads = np.empty(0, np.uint64), np.empty(0, np.float64)
    for chunk in InputLines(config.inputs, config.encoding, lambda _line: None):
        keys = parser.parse(chunk).table.column("key").drop_null()
        new, counts = np.unique(hash_keys(keys), return_counts=True)
        both, places = np.unique(np.concatenate([hashes, new]), return_inverse=True)
        loads = np.bincount(places, np.concatenate([loads, counts]), len(both)).astype(np.float64)
        hashes = both
    return hashes, loads
