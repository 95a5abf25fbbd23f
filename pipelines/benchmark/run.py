"""One run from its configuration to its cell: replay and query side by side, then the oracle."""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from partitioners.errors import InputError, KeyspreadError, RunError
from pipelines import engine
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.collect import collect
from pipelines.benchmark.ending import has_begun, has_results, say_how_to_go_on
from pipelines.benchmark.parts import make_content, make_windows, make_workload
from pipelines.benchmark.prepare import RunConfig, results_folder
from pipelines.benchmark.progress import RunProgress, input_bytes, progress_bars
from pipelines.benchmark.replay import Replay, ReplayReport
from pipelines.benchmark.run_metrics import run_collectors
from pipelines.benchmark.sender import TopicSender
from pipelines.benchmark.site import DiskWatch, Site, open_site
from pipelines.benchmark.verify import Answers, verify
from pipelines.dead_letters import DeadLetters
from pipelines.input_files import unchanged_since
from pipelines.interrupt import stoppable
from pipelines.run_lock import RunLock
from pipelines.sinks import ConsoleSink, KafkaSink, ParquetSink, Sink, named_sink
from pipelines.topics import make_topic, require_topic, stable_end_offsets
from pipelines.workloads import Workload

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.metrics import MetricsServer

POLL_SECONDS = 0.2
REPLAY_STOP_SECONDS = 15.0


def execute(
    config: RunConfig,
    folder: Path,
    site: Site,
    *,
    resumed: bool,
    progress: RunProgress,
    replay_first: bool = False,
    answers: Answers | None = None,
    metrics: MetricsServer | None = None,
) -> Cell:
    """Carry a run out, or on.

    Args:
        config: The run.
        folder: Its folder.
        site: Broker and Spark.
        resumed: Whether an earlier attempt may have sent a part.
        progress: Shows how far it is.
        replay_first: The query starts when all is in the topic, so that it needs few batches.
            Latencies then say nothing.
        answers: Keeps the oracle's answers for runs that must have the same.
        metrics: Where producer and query are shown.

    Returns:
        The cell, which is also in the folder.

    Raises:
        InputError: The topic is not as it was, or the disk is full.
        RunError: The query or the replay failed.
    """
    started = time.monotonic()
    check_unchanged = unchanged_since(config.inputs)
    workload = make_workload(config)
    in_topic = np.zeros(config.partitions, np.int64)
    if resumed and (folder / "checkpoint").exists():
        require_topic(site.settings, config.topic, config.partitions)
    else:
        make_topic(site.settings, config.topic, config.partitions)
    if resumed:
        in_topic += stable_end_offsets(site.settings, config.topic, config.partitions)
    results_dir = Path(config.results_dir or folder / "results")
    results_dir.mkdir(parents=True, exist_ok=True)
    disk = DiskWatch(folder, results_dir)
    sender = TopicSender(site.settings, config.topic, config.partitions)
    if metrics is not None:
        sender.producer.observe()
    with DeadLetters(folder / "dead-letters.jsonl") as dead_letters:
        replay = Replay(
            config,
            workload,
            make_content(config),
            sender,
            dead_letters,
            in_topic.tolist(),
            on_progress=progress.sent,
            await_go=not replay_first,
        )
        sending = ReplayThread(replay)
        if replay_first:
            sending.run()
            sending.raise_error()
        query = _start_query(config, workload, folder, site, progress)
        if metrics is not None:
            schedule = replay.report.schedule
            metrics.show(run_collectors(config, sender.producer, query, schedule))
        if not replay_first:
            sending.start()
        if resumed:
            # Spark is warm or has nothing left to do: its first batch may never come.
            replay.go()
        try:
            while not query.await_end(POLL_SECONDS):
                if query.has_committed:
                    replay.go()
                progress.behind(query.lag)
                disk.check()
                site.check_broker()
                sending.raise_error()
                if (report := sending.report) is not None:
                    progress.expect(report.produced)
            if not replay_first:
                sending.join()
            sending.raise_error()
        except BaseException as error:
            replay.stop()
            if not replay_first:
                sending.join(REPLAY_STOP_SECONDS)
            query.stop()
            raise _worth_telling(error, sending, disk) from error
    report = sending.report
    assert report is not None
    assert query.ended_s is not None
    summary = query.summary()
    progress.verifying()
    check_unchanged()
    comparison = verify(config, workload, results_dir, report, summary, answers)
    total_seconds = time.monotonic() - started
    cell = collect(
        config,
        workload,
        report,
        summary,
        comparison,
        largest_lag=query.largest_lag,
        ended_s=query.ended_s,
        total_seconds=total_seconds,
    )
    cell.write(folder)
    workload.publish(results_dir, folder)
    return cell


def _sinks(config: RunConfig, folder: Path, site: Site) -> list[Sink]:
    """The folder of results, which the oracle reads, and the sinks asked for beside it."""
    from pipelines.consoles import stderr_console

    found: list[Sink] = [ParquetSink(config.results_dir or folder / "results")]
    for name in config.sinks:
        if name == "console":
            # What a run prints on stdout is its figures.
            found.append(ConsoleSink(console=stderr_console()))
            continue
        sink = named_sink(name, query=config.workload, bootstrap=site.bootstrap, kafka=config.kafka)
        if isinstance(sink, KafkaSink) and site.broker is not None:
            raise InputError(
                f"the run's own broker ends with it, and so would the topic of --sink {name}: name "
                "a broker with --bootstrap"
            )
        found.append(sink)
    return found


def _start_query(
    config: RunConfig, workload: Workload, folder: Path, site: Site, progress: RunProgress
) -> engine.RunningQuery:
    from pyspark.errors import PySparkException

    try:
        return engine.start(
            site.spark,
            workload,
            bootstrap=site.bootstrap,
            topic=config.topic,
            num_partitions=config.partitions,
            num_shards=config.shards,
            windows=make_windows(config),
            lateness_ms=config.lateness_ms,
            progress="watermarks",
            emit=config.emit,
            k=config.top,
            results_dir=config.results_dir or folder / "results",
            checkpoint_dir=folder / "checkpoint",
            batch_records=config.batch_records,
            kafka=config.kafka,
            sinks=_sinks(config, folder, site),
            listener=lambda batch: progress.computed(batch.records, batch.windows),
        )
    except PySparkException as error:
        reason = next(filter(None, map(str.strip, str(error).splitlines())), "no reason given")
        raise RunError(f"the query did not start: {reason[:300]}") from error


class ReplayThread(threading.Thread):
    """Runs a replay beside the query.

    Args:
        replay: What to run.
    """

    def __init__(self, replay: Replay) -> None:
        # A daemon: where the broker is gone for good, the end of the program must not wait for it.
        super().__init__(name="keyspread-replay", daemon=True)
        self._replay = replay
        self.report: ReplayReport | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """See `threading.Thread`."""
        try:
            self.report = self._replay.run()
        except BaseException as error:
            self.error = error

    def raise_error(self) -> None:
        """Raise here what ended the replay."""
        if self.error is not None:
            raise self.error


def _worth_telling(error: BaseException, sending: ReplayThread, disk: DiskWatch) -> BaseException:
    """Choose the error that is the cause: a full disk, or a replay, takes its query along."""
    if not isinstance(error, Exception):
        return error
    try:
        disk.check(now=True)
    except InputError as full:
        return full
    cause = sending.error
    if isinstance(error, RunError) and isinstance(cause, KeyspreadError):
        return cause
    return error


def carry_out(
    config: RunConfig,
    folder: Path,
    *,
    resumed: bool,
    console: Console,
    quiet: bool,
    metrics: MetricsServer | None = None,
) -> Cell:
    """Carry a run out on a site of its own, which is gone afterwards.

    Args:
        config: The run.
        folder: Its folder.
        resumed: Whether it goes on with an earlier attempt. The results' folder of a new run is
            held by who made it.
        console: Where progress goes.
        quiet: Show none.
        metrics: Where producer and query are shown.

    Raises:
        InputError: Something asked for is no good.
        RunError: The run failed.
        Interrupted: Ctrl-C or SIGTERM; what was delivered is kept.
    """
    broker_dir = folder / "broker"

    def say(text: str) -> None:
        if not quiet:
            console.print(f"{text} ...", style="dim", highlight=False)

    results: AbstractContextManager[None] = nullcontext()
    if resumed and config.results_dir is not None:
        results = results_folder(Path(config.results_dir), resumed=True)
    with RunLock(folder) as lock, results:
        if resumed and has_results(folder):
            raise InputError(
                f"run {config.run_id} is finished: `keyspread report {config.run_id}` shows it"
            )
        try:
            reducers = f"{config.shards} reducer" + ("" if config.shards == 1 else "s (--shards)")
            say(f"run {config.run_id}: {config.partitions} partitions (--partitions), {reducers}")
            with stoppable():
                site = open_site(
                    bootstrap=config.bootstrap,
                    kafka=config.kafka,
                    broker_dir=broker_dir,
                    master=config.master,
                    spark_dir=folder / "spark",
                    say=say,
                )
                with (
                    site as opened,
                    progress_bars(console, shown=not quiet) as bars,
                ):
                    lock.note(os.getpid(), *opened.pids)
                    title = f"{config.workload} {config.partitioner}"
                    size = input_bytes(config.inputs)
                    progress = RunProgress(bars, title, size, shown=not quiet)
                    if opened.broker is None and config.bootstrap is None:
                        # A resumed run has to find its topic again.
                        config = dataclasses.replace(config, bootstrap=opened.bootstrap)
                        config.write(folder)
                    cell = execute(
                        config,
                        folder,
                        opened,
                        resumed=resumed,
                        progress=progress,
                        metrics=metrics,
                    )
        except KeyspreadError as error:
            if resumed or has_begun(folder) or isinstance(error, RunError):
                say_how_to_go_on(error, folder)
            raise
        shutil.rmtree(broker_dir, ignore_errors=True)
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    return cell
