"""From what options say to the configuration of a run: defaults filled in, files found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipelines.commands.options import parse_typed_pairs

if TYPE_CHECKING:
    from pipelines.benchmark.prepare import Emit, RunConfig


DEFAULT_SHARDS = 2


def make_config(
    workload: str,
    *,
    run_id: str,
    inputs: list[Path] | None,
    encoding: str,
    workload_option: list[str] | None,
    window_ms: int | None,
    slide_ms: int | None,
    window: list[str] | None = None,
    pace: tuple[str, float],
    emit: str | None,
    top: int | None,
    is_run: bool = True,
    **settings: Any,
) -> RunConfig:
    """Configure a run; what is left out (None) is as the workload has it.

    Args:
        workload: Its name.
        run_id: Of the run.
        inputs: Files, or folders of `keyspread data`; none: what ships.
        encoding: Of the input; "auto" takes that of what ships.
        workload_option: Texts `name=value`.
        window_ms: Size of the windows.
        slide_ms: Their slide.
        window: In place of both: texts `SIZE/SLIDE`, one for each kind of windows.
        pace: From `pace_of`.
        emit: What is written of each window.
        top: Size of a window's top.
        is_run: Whether it will be run, and so needs an input.
        settings: Further fields of `RunConfig`, as they are; `shards` may be None.

    Raises:
        InputError: An unknown workload or option, or it ships no data and none is named.
    """
    from pipelines.benchmark.prepare import RunConfig
    from pipelines.workloads import create_workload

    options = parse_typed_pairs(workload_option, "--workload-option")
    known = create_workload(workload, **options)
    size_ms = known.default_window_ms if window_ms is None else window_ms
    kinds = [(size_ms, _slide(slide_ms, size_ms, known.default_slide_ms))]
    if window:
        kinds = _kinds(window, said=window_ms is not None or slide_ms is not None)
    if settings.get("shards") is None:
        # What has to be put in order is put in order in one place.
        settings["shards"] = 1 if known.per_event else DEFAULT_SHARDS
    return RunConfig(
        run_id=run_id,
        workload=workload,
        workload_options=options,
        inputs=_inputs(inputs, known.default_input, workload) if is_run else (),
        encoding=known.default_encoding if inputs is None and encoding == "auto" else encoding,
        window_ms=kinds[0][0],
        slide_ms=kinds[0][1],
        more_windows=tuple(kinds[1:]),
        pace=pace[0],
        pace_value=pace[1],
        emit=known.default_emit if emit is None else cast("Emit", emit),  # `check` refuses others
        top=known.k if top is None else top,
        **settings,
    )


def _inputs(inputs: list[Path] | None, shipped: Path | None, workload: str) -> tuple[str, ...]:
    from partitioners.errors import InputError
    from pipelines.datasets.folder import input_files
    from pipelines.input_files import STDIN

    if inputs:
        files = [file for path in inputs for file in input_files(path)]
        return tuple(str(path if str(path) == STDIN else path.absolute()) for path in files)
    if shipped is None:
        raise InputError(f"{workload} ships no data: name a file with --input")
    return (str(shipped),)


def _kinds(window: list[str], *, said: bool) -> list[tuple[int, int]]:
    """Size and slide of each kind of windows."""
    from partitioners.errors import InputError
    from partitioners.option_values import list_of
    from pipelines.panes import Windows

    if said:
        raise InputError("--window takes the place of --window-ms and --slide-ms: leave these out")
    return [(each.size_ms, each.slide_ms) for each in map(Windows.parse, list_of(window))]


def _slide(slide_ms: int | None, window_ms: int, default_slide_ms: int) -> int:
    """The workload's slide only goes with a window it divides; else windows tumble."""
    if slide_ms is not None:
        return slide_ms
    return default_slide_ms if window_ms > 0 and window_ms % default_slide_ms == 0 else window_ms


def pace_of(speedup: float | None, rate: float | None, as_fast: bool = False) -> tuple[str, float]:
    """Read how fast a replay is to be.

    Args:
        speedup: Of event time.
        rate: Records per second.
        as_fast: As fast as it goes, which is also what nothing said means.

    Returns:
        `RunConfig.pace` and `pace_value`.

    Raises:
        InputError: More than one is given.

    Example:
        >>> pace_of(60, None), pace_of(None, None)
        (('speedup', 60.0), ('max', 0.0))
    """
    from partitioners.errors import InputError

    given = [("speedup", speedup), ("rate", rate)]
    said = [(name, float(value)) for name, value in given if value is not None]
    if len(said) + as_fast > 1:
        raise InputError("--speedup, --rate and --max exclude each other: give one of them")
    return said[0] if said else ("max", 0.0)
