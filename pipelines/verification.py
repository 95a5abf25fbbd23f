"""Every workload on the data that ships with every partitioner, each compared with its oracle.

One broker and one Spark session serve all runs, and the oracle answers once for all partitioners of
a workload. The topic is filled before the query starts, which then needs few batches. A run that
is not exact, or fails, is a cell like any other: the rest goes on, and the table names what was
wrong.
"""

from __future__ import annotations

import contextlib
import inspect
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partitioners import PARTITIONERS
from partitioners.errors import InputError, KeyspreadError, nearest
from pipelines.benchmark.parts import check_run, shipped_config
from pipelines.benchmark.prepare import RunConfig, make_run_folder, new_run_id
from pipelines.benchmark.progress import RunProgress, progress_bars
from pipelines.benchmark.run import execute
from pipelines.benchmark.site import Site, open_site
from pipelines.benchmark.verify import Answers
from pipelines.interrupt import stoppable
from pipelines.workloads import WORKLOADS

if TYPE_CHECKING:
    from rich.console import Console

PARTITIONS = 4
EXACT = "exact"
# Options that make another query of a workload, or compute it another way.
FORMS: tuple[tuple[str, Any], ...] = (
    ("whole", True),
    ("per_event", True),
    ("algorithm", "greedy"),
)


@dataclass(frozen=True)
class Verdict:
    """What came of one workload with one partitioner.

    Attributes:
        verdict: `exact`, or the first difference, or why the run failed.
    """

    workload: str
    options: dict[str, Any]
    partitioner: str
    verdict: str
    records: int = 0
    windows: int = 0
    seconds: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether nothing differs."""
        return self.verdict == EXACT

    @property
    def row(self) -> str:
        """The workload and its options, as in the table."""
        return " ".join(
            [self.workload, *(f"{name}={value}" for name, value in self.options.items())]
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "exact": self.exact}


def cases(workloads: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """The workloads to run, with their options: those that have another form once more for it.

    Args:
        workloads: Names; none: all that ship data.

    Raises:
        InputError: An unknown name, or one that ships no data.
    """
    shipped = [name for name, kind in WORKLOADS.items() if kind.default_input is not None]
    chosen: list[tuple[str, dict[str, Any]]] = []
    for name in workloads or shipped:
        if name not in shipped:
            raise InputError(f'no workload "{name}" with data that ships: {nearest(name, shipped)}')
        chosen.append((name, {}))
        known = inspect.signature(WORKLOADS[name]).parameters
        chosen += [(name, {option: value}) for option, value in FORMS if option in known]
    return chosen


def known_partitioners(names: Sequence[str]) -> list[str]:
    """Check names of partitioners; none: all.

    Raises:
        InputError: An unknown name.
    """
    for name in names:
        if name not in PARTITIONERS:
            raise InputError(f'unknown partitioner "{name}": {nearest(name, PARTITIONERS)}')
    return list(names or PARTITIONERS)


def run_verification(
    workloads: Sequence[str],
    partitioners: Sequence[str],
    master: str,
    *,
    console: Console,
    quiet: bool,
) -> list[Verdict]:
    """Run them all.

    Args:
        workloads: See `cases`.
        partitioners: See `known_partitioners`.
        master: Spark master.
        console: Where progress goes.
        quiet: Show none.

    Raises:
        InputError: A name is unknown, or the machine lacks something.
        Interrupted: Ctrl-C or SIGTERM.
    """
    runs = list(product(cases(workloads), known_partitioners(partitioners)))
    verify_id = new_run_id()
    configs = [
        shipped_config(f"{verify_id}-{number}", name, partitioner, PARTITIONS, options)
        for number, ((name, options), partitioner) in enumerate(runs, 1)
    ]
    verdicts: list[Verdict] = []

    def say(text: str) -> None:
        if not quiet:
            console.print(f"{text} ...", style="dim")

    with (
        tempfile.TemporaryDirectory(prefix="keyspread-verify-") as scratch,
        contextlib.closing(Answers(Path(scratch))) as answers,
    ):
        folder = Path(scratch)
        site = open_site(
            bootstrap=None,
            kafka={},
            broker_dir=folder / "broker",
            master=master,
            spark_dir=folder / "spark",
            say=say,
            quick_start=True,
        )
        with stoppable(), site as opened, progress_bars(console, shown=not quiet) as bars:
            task = bars.add_task("verify", total=len(configs), unit="")
            hidden = progress_bars(console, shown=False)
            with hidden as nowhere:
                for number, config in enumerate(configs):
                    title = f"{config.workload} {config.partitioner}"
                    bars.update(task, completed=number, unit=title)
                    if not console.is_terminal:  # where there are no bars
                        say(f"{title} ({number + 1} of {len(configs)})")
                    progress = RunProgress(nowhere, title, 0)
                    verdicts.append(_verdict(config, folder / "runs", opened, progress, answers))
                bars.update(task, completed=len(configs), unit="")
    return verdicts


def _verdict(
    config: RunConfig, runs_dir: Path, site: Site, progress: RunProgress, answers: Answers
) -> Verdict:
    case = (config.workload, dict(config.workload_options), config.partitioner)
    try:
        check_run(config)
        folder = make_run_folder(runs_dir, config)
        cell = execute(
            config,
            folder,
            site,
            resumed=False,
            progress=progress,
            replay_first=True,
            answers=answers,
        )
    except KeyspreadError as error:
        return Verdict(*case, str(error))
    finally:
        shutil.rmtree(runs_dir, ignore_errors=True)
    verdict = EXACT if cell.exact else cell.differences[0]
    return Verdict(*case, verdict, cell.produced, cell.windows_compared, cell.total_seconds)
