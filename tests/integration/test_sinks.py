"""Every sink after a `kill -9` in mid-run, against plain Python; dead letters beside them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import psycopg
import pytest
from postgres_server import running_postgres
from rich.console import Console

import pipelines
from partitioners.errors import InputError
from pipelines.sinks import ConsoleSink, MemorySink, PostgresSink, named_sink
from pipelines.sinks.base import Part, Shape
from pipelines.sinks.named import check_run_sink
from tests.integration import sinks_job
from tests.integration.programs import PATIENCE_SECONDS, ROOT
from tests.integration.reading import read_topic
from tests.integration.sending import ordered_producer
from tests.integration.sinks_job import SIZE_MS, SLIDE_MS

pytestmark = [pytest.mark.broker, pytest.mark.spark]

Rows = dict[tuple[int, str | None], tuple[int, Decimal, float]]
NUM_RECORDS = 2_000
AHEAD_MS = 2 * 3_600_000


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with running_postgres() as uri:
        yield uri


@contextlib.contextmanager
def job(log: Path, *args: object) -> Iterator[Callable[[Callable[[], bool], str], None]]:
    """Run `sinks_job` as a program; gives a wait for a condition; killed at the end."""
    with (
        log.open("w") as words,
        subprocess.Popen(
            [sys.executable, "-m", "tests.integration.sinks_job", *map(str, args)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=words,
        ) as program,
    ):

        def wait_until(condition: Callable[[], bool], what: str) -> None:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not condition():
                assert time.monotonic() < deadline, f"never {what}: {log.read_text()}"
                assert program.poll() is None, log.read_text()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(0.1)

        try:
            yield wait_until
        finally:
            family = psutil.Process(program.pid).children(recursive=True)
            program.kill()
            _gone, alive = psutil.wait_procs(family, timeout=20)
            for each in alive:
                each.kill()


def fill(topic: str, config: dict[str, Any]) -> tuple[Rows, list[tuple[int, int, str]]]:
    """Send records and what is none; gives the windows, and place and reason of what is none."""
    inside: dict[tuple[int, str | None], list[int]] = defaultdict(list)
    dead: list[tuple[int, int, str]] = []
    sent = [0, 0, 0]
    producer = ordered_producer(config)

    def send(text: str, partition: int) -> None:
        producer.produce(topic, text.encode(), partition=partition)
        sent[partition] += 1

    for i, cents in enumerate(np.random.default_rng(4).integers(-500, 5_000, NUM_RECORDS).tolist()):
        user = None if cents % 7 == 6 else f"user {cents % 7}"
        record = {"ts": i * 10, "price": cents / 100} | ({} if user is None else {"user": user})
        send(json.dumps(record), cents % 3)
        first = i * 10 // SLIDE_MS * SLIDE_MS
        for start in range(first, i * 10 - SIZE_MS, -SLIDE_MS):
            inside[start, user].append(cents)
        if i % 500 == 250:
            ahead = {"ts": int(time.time() * 1000) + AHEAD_MS, "price": 1}
            for bad, why in (
                ("no json", "its value is no JSON object"),
                ('{"ts": 1}', '"price" is missing or no number of at most 2 decimal places'),
                (json.dumps(ahead), "its time is more than 3600000 ms ahead of the clock"),
            ):
                dead.append((i % 3, sent[i % 3], why))
                send(bad, i % 3)
    assert producer.flush(60) == 0
    values = {
        place: (len(cents), Decimal(sum(cents)).scaleb(-2), sum(cents) / (100 * len(cents)))
        for place, cents in inside.items()
    }
    return values, dead


def by_place(rows: list[dict[str, Any]]) -> Rows:
    """Rows of results by window and key, each of which is there once."""
    found = {
        (round(row["window_start"].timestamp() * 1000), row["user"]): (
            row["count"],
            row["spent"],
            row["mean"],
        )
        for row in rows
    }
    assert len(found) == len(rows)
    return found


def in_table(uri: str, table: str) -> Rows:
    with psycopg.connect(uri, row_factory=psycopg.rows.dict_row) as connection:
        return by_place(connection.execute(f"SELECT * FROM {table}").fetchall())  # type: ignore[arg-type]


def in_topic(config: dict[str, Any], topic: str) -> Rows:
    """The last message of each key."""
    last = {}
    for record in read_topic(config, topic):
        assert record.key is not None
        last[record.key] = record.value
    found = {}
    for key, value in last.items():
        row, place = json.loads(value or b""), json.loads(key)
        assert {name: row[name] for name in place} == place
        assert row["window_end"] == row["window_start"] + SIZE_MS
        values = (row["count"], Decimal(row["spent"]), row["mean"])
        found[row["window_start"], row["user"]] = values
    assert len(found) == len(last)
    return found


def test_sinks_after_kill_9(spark, bootstrap, client_config, make_topic, postgres, tmp_path):
    topic = make_topic(3)
    expected, dead = fill(topic, client_config)
    commits = tmp_path / "results.checkpoint" / "commits"

    def committed() -> list[int]:
        return sorted(int(f.name) for f in commits.glob("*") if f.name.isdigit())

    with job(tmp_path / "log", bootstrap, topic, tmp_path, postgres) as wait_until:
        wait_until(lambda: len(committed()) >= 2, "a second batch")
    # What a kill between the write and Spark's commit leaves.
    last = committed()[-1]
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)

    query = sinks_job.start(bootstrap, topic, tmp_path, postgres, spark=spark)
    try:
        query.process_available()
        progress, results = query.progress, by_place(query.results().to_dicts())
    finally:
        query.stop()
    assert last < max(committed())
    assert progress.late == 0
    assert (progress.on_time, progress.dead) == (NUM_RECORDS, len(dead))
    assert max(progress.watermarks_ms.values()) < NUM_RECORDS * 10
    assert results == {place: expected[place] for place in results}
    closed = min(progress.watermarks_ms.values())
    assert {place for place in expected if place[0] + SIZE_MS <= closed} <= set(results)
    assert in_table(postgres, "windows") == results
    assert in_topic(client_config, f"{topic}-results") == results

    letters = {}
    for record in read_topic(client_config, f"{topic}-dead"):
        headers = {name: (value or b"").decode() for name, value in record.headers or ()}
        assert headers["keyspread.topic"] == topic
        partition, offset = (int(headers[f"keyspread.{n}"]) for n in ("partition", "offset"))
        assert record.partition == partition
        letters[partition, offset] = headers["keyspread.reason"]
    assert letters == {(partition, offset): why for partition, offset, why in dead}

    screen = io.StringIO()
    memory, console = MemorySink(), ConsoleSink(console=Console(file=screen, width=160))
    query = pipelines.run(
        pipelines.Topic(name=topic, bootstrap=bootstrap, time="ts", decimals={"price": 2}),
        key="user",
        aggregates=[pipelines.Sum("spent", "price"), pipelines.Mean("mean", "price")],
        windows=pipelines.Windows(SIZE_MS, SLIDE_MS),
        sink=[memory, console],
        spark=spark,
    )
    try:
        query.process_available()
        assert by_place(memory.table.to_pylist()) == results
        assert query.results().to_dicts() == memory.table.to_pylist()
    finally:
        query.stop()
    last_end = max(start for start, _ in results) + SIZE_MS
    assert f"00:00:{last_end // 1000:02d}.000" in screen.getvalue()


def test_a_sink_that_cannot_be_is_refused_before_the_query(bootstrap, make_topic, tmp_path):
    source = pipelines.Topic(name=make_topic(1), bootstrap=bootstrap, time="ts")
    windows = pipelines.Windows.of("1 min")
    for sink, message in (
        ([MemorySink(), tmp_path], "memory is empty at each start"),
        ("kafka:results", "say a folder for the checkpoint"),
        ("mysql://here", "is no sink: say console, memory, kafka:TOPIC"),
        ([], "name a sink"),
    ):
        with pytest.raises(InputError, match=message):
            pipelines.run(source, windows=windows, sink=sink)
    with pytest.raises(InputError, match="dead letters need a topic of their own"):
        pipelines.run(source, windows=windows, sink="console", dead_letters=source.name)


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ("memory", "is none for a run: say console"),
        ("results", "the folder is --results"),
        ("kafka:", "a Kafka sink needs a topic"),
        ("postgresql://me:secret@here/db", "a password in --sink would be kept"),
    ],
)
def test_sinks_a_run_cannot_have(sink: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_run_sink(sink)


def test_a_table_that_does_not_fit_is_refused(postgres: str) -> None:
    import pyarrow as pa

    schema = pa.schema([("window_start", pa.int64()), ("user", pa.string()), ("n", pa.int64())])
    shape = Shape("q", schema, ("window_start", "user"))
    sink = named_sink(f"{postgres}#other", query="q", bootstrap="")
    sink.open(shape)
    sink.open(shape)
    rows = pa.table([[1, 1], ["", None], [5, 6]], schema=schema)
    for _ in range(2):
        assert sink.write([rows], shape, Part(0, "shard-0000")) == 2
    with psycopg.connect(postgres) as connection:
        found = connection.execute('SELECT "user", n FROM other ORDER BY n').fetchall()
        batches = connection.execute("SELECT part, num_rows FROM other_batches").fetchall()
    assert found == [("", 5), (None, 6)]
    assert batches == [("shard-0000", 2)]
    wider = Shape("q", schema.append(pa.field("more", pa.bool_())), ("window_start", "user"))
    with pytest.raises(InputError, match="has the columns window_start, user, n, not"):
        sink.open(wider)
    with pytest.raises(InputError, match="PostgreSQL does not take the results"):
        PostgresSink("postgresql://nobody@127.0.0.1:1/none", "t").open(shape)
