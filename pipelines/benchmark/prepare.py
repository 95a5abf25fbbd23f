"""Before a run: its configuration checked, its folder made, its lock taken."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from partitioners.errors import InputError, nearest
from pipelines.run_lock import FolderLock
from pipelines.text_input import AUTO

Emit = Literal["all", "changed", "top"]
EMITS = ("all", "changed", "top")
PACES = ("max", "rate", "speedup")
LEAST_FREE_BYTES = 64 << 20
_SECRET = re.compile(r"password|secret|jaas|\.pem$|token", re.IGNORECASE)
_MAX_PARTITIONS = 10_000
_MAX_SHARDS = 1_000
# So that an event time and a window always make a time that Parquet's readers know.
_MAX_MS = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """What a run is: with the same input it fixes the content of the topic and the results.

    Attributes:
        options: Of the partitioner.
        workload_options: Of the workload.
        pace: `max` (as fast as the client goes), `rate` (records/s) or `speedup` (of event time).
        pace_value: The rate or the speed-up.
        bootstrap: Kafka servers; None for an embedded broker of the run's own.
        punctuation_records: Least number of records between two watermark records.
        batch_records: Records per Spark batch.
        sinks: Names of sinks that take the results beside the folder.
        more_windows: Size and slide of further windows on the same stream, in milliseconds.
    """

    run_id: str
    workload: str
    inputs: tuple[str, ...]
    partitioner: str
    partitions: int
    encoding: str = AUTO
    options: Mapping[str, Any] = field(default_factory=dict)
    workload_options: Mapping[str, Any] = field(default_factory=dict)
    sources: int = 1
    shards: int = 2
    window_ms: int = 60_000
    slide_ms: int = 60_000
    lateness_ms: int = 0
    pace: str = "max"
    pace_value: float = 0.0
    emit: Emit = "all"
    top: int = 10
    bootstrap: str | None = None
    kafka: Mapping[str, str] = field(default_factory=dict)
    master: str = "local[2]"
    results_dir: str | None = None
    punctuation_records: int = 1_000
    batch_records: int = 1_000_000
    sinks: Sequence[str] = ()
    more_windows: Sequence[tuple[int, int]] = ()

    @property
    def topic(self) -> str:
        """The run's own topic."""
        return f"{self.workload}-{self.run_id}"

    @property
    def windows(self) -> list[tuple[int, int]]:
        """Size and slide of every kind of windows, in milliseconds."""
        return [(self.window_ms, self.slide_ms), *self.more_windows]

    def of_each_window(self) -> list[RunConfig]:
        """The run as it were with each kind of its windows alone."""
        return [
            replace(self, window_ms=size_ms, slide_ms=slide_ms, more_windows=())
            for size_ms, slide_ms in self.windows
        ]

    def check(self) -> None:
        """Refuse values out of range.

        Raises:
            InputError: The first that is; the text gives the range.
        """
        _in_range("--partitions", self.partitions, 1, _MAX_PARTITIONS)
        _in_range("--sources", self.sources, 1, _MAX_PARTITIONS)
        _in_range("--shards", self.shards, 1, _MAX_SHARDS)
        _in_range("--window-ms", self.window_ms, 1, _MAX_MS)
        _in_range("--slide-ms", self.slide_ms, 1, _MAX_MS)
        _in_range("--lateness-ms", self.lateness_ms, 0, _MAX_MS)
        _in_range("--top", self.top, 1, 1_000_000)
        _in_range("--batch-records", self.batch_records, 1, 2**53)
        _in_range("--punctuation-records", self.punctuation_records, 1, 2**53)
        if self.sinks:
            from pipelines.sinks.named import check_run_sink

            for sink in self.sinks:
                check_run_sink(sink)
        for size_ms, slide_ms in self.windows:
            if slide_ms > size_ms:
                raise InputError(
                    f"--slide-ms {slide_ms} is larger than --window-ms {size_ms}: records "
                    "between two windows would be in none; give a slide of at most the window"
                )
            if size_ms % slide_ms:
                raise InputError(
                    f"--slide-ms {slide_ms} does not divide --window-ms {size_ms}: give a "
                    f"slide such as {_divisor_near(size_ms, slide_ms)}"
                )
        if self.pace not in PACES:
            raise InputError(f'unknown pace "{self.pace}": {nearest(self.pace, PACES)}')
        if self.pace != "max" and not 0 < self.pace_value < float("inf"):
            raise InputError(f"--{self.pace} must be above 0, not {self.pace_value:g}")
        if self.emit not in EMITS:
            raise InputError(f'unknown --emit "{self.emit}": {nearest(self.emit, EMITS)}')

    def public(self) -> dict[str, Any]:
        """Give all of it but passwords and other secrets."""
        shown = {name: value for name, value in self.kafka.items() if not _SECRET.search(name)}
        content = asdict(replace(self, kafka=shown))
        if not self.more_windows:
            # As cells were before a run could have several.
            del content["more_windows"]
        return content

    @classmethod
    def from_public(cls, content: Mapping[str, Any]) -> RunConfig:
        """Make it from what `public` gave, back from JSON."""
        lists: dict[str, Any] = {name: tuple(content.get(name, ())) for name in ("inputs", "sinks")}
        lists["more_windows"] = tuple(map(tuple, content.get("more_windows", ())))
        return cls(**{**content, **lists})

    def write(self, folder: Path) -> None:
        """Write `config.json`, without secrets.

        Args:
            folder: The run's folder.
        """
        scratch = folder / ".config.json.tmp"
        scratch.write_text(json.dumps(self.public(), indent=2) + "\n", encoding="utf-8")
        scratch.replace(folder / "config.json")

    @classmethod
    def read(cls, folder: Path) -> RunConfig:
        """Read the configuration of an earlier run.

        Args:
            folder: The run's folder.

        Raises:
            InputError: There is none, or it is of another version.
        """
        path = folder / "config.json"
        try:
            return cls.from_public(json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{path} is damaged or of another version ({error}): start the run anew"
            ) from error


def new_run_id() -> str:
    """Make a run id: the time, to sort by, and four random digits, to be alone."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def make_run_folder(runs_dir: Path, config: RunConfig) -> Path:
    """Make the folder of a new run and put its configuration there.

    Args:
        runs_dir: Where runs are kept.
        config: What the run is.

    Raises:
        InputError: The folder cannot be made or written, or its disk is full.
    """
    folder = runs_dir / config.run_id
    with writing(runs_dir, "--runs-dir"):
        folder.mkdir(parents=True)
        try:
            require_free_space(runs_dir, "--runs-dir")
            config.write(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return folder


@contextlib.contextmanager
def results_folder(
    path: Path, *, resumed: bool = False, option: str = "--results"
) -> Iterator[None]:
    """Have a folder for one run's results alone, while a block goes on.

    If the block fails and nothing was written, the folder goes, unless it was there before.

    Args:
        path: The folder; made if it is not there.
        resumed: Whether it may hold something already.
        option: Where the user named it.

    Raises:
        InputError: It cannot be written, holds something already, or another run writes to it.
    """
    with contextlib.ExitStack() as stack:
        with writing(path, option):
            stack.enter_context(FolderLock(path, option))
            probe = path / ".writable"
            probe.touch()
            probe.unlink()
            if not resumed and any(path.iterdir()):
                raise InputError(f"{path} is not empty: name a new folder with {option}")
            require_free_space(path, option)
        yield


def require_free_space(path: Path, option: str, least_bytes: int = LEAST_FREE_BYTES) -> None:
    """Refuse to go on when a disk is nearly full.

    Args:
        path: A folder on the disk.
        option: Where the user can name another.
        least_bytes: What has to be free.

    Raises:
        InputError: Less than that is free.
    """
    free = shutil.disk_usage(path).free
    if free < least_bytes:
        raise InputError(
            f"the disk that holds {path} is full: {free >> 20} MiB are free and "
            f"{least_bytes >> 20} MiB are needed; free some space, or name another folder with "
            f"{option}"
        )


def find_run(runs_dir: Path, run: str) -> Path:
    """Give the folder of a run.

    Args:
        runs_dir: Where runs are kept.
        run: Its id, or the path of its folder.

    Raises:
        InputError: There is no such run.
    """
    for folder in (runs_dir / run, Path(run)):
        if (folder / "config.json").is_file():
            return folder
    known = [path.parent.name for path in runs_dir.glob("*/config.json")]
    hint = nearest(run, known, most=3) if known else "there are no runs yet"
    raise InputError(f'no run "{run}" in {runs_dir}: {hint}')


class writing:  # noqa: N801  reads as a verb where it is used
    """Turns a failed write into a sentence with its mend.

    Args:
        path: What is written.
        option: Where the user can name another.
    """

    def __init__(self, path: Path, option: str) -> None:
        self.path = path
        self.option = option

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileExistsError | NotADirectoryError):
            for part in (self.path, *self.path.parents):
                if part.exists() and not part.is_dir():
                    raise InputError(
                        f"{part} is a file, not a folder: name another folder with {self.option}"
                    ) from error
        if isinstance(error, OSError):
            raise InputError(
                f"cannot write {self.path}: {error.strerror}; name another folder with "
                f"{self.option}"
            ) from error


def _in_range(option: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        upper = " or more" if most >= _MAX_MS and value < least else f" to {most:,}"
        raise InputError(f"{option} must be {least}{upper}, not {value}")


def _divisor_near(window_ms: int, slide_ms: int) -> int:
    """Give the largest divisor of the window up to the slide (or the window, if far away).

    Example:
        >>> _divisor_near(60_000, 7_000)
        6000
    """
    first = -(-window_ms // slide_ms)
    pieces = (n for n in range(first, first + 100_000) if n <= window_ms and window_ms % n == 0)
    return window_ms // next(pieces, 1)
