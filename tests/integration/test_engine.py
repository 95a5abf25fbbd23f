"""The engine on a real broker and real Spark."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from naive_windows import Row, Values, naive_sums
from streams import deal, read_results

from partitioners.errors import InputError, RunError
from pipelines import engine
from pipelines.batch_log import BatchLog
from pipelines.panes import Windows
from pipelines.punctuation import END_MS, encode_watermark
from pipelines.session import query_session
from pipelines.shards import spark_partition
from pipelines.text_input import read_chunks
from pipelines.workloads import KeyedSum, Workload, create_workload
from tests.integration.sending import ordered_producer

pytestmark = [pytest.mark.broker, pytest.mark.spark]

MINUTE_MS = 60_000
END_SECONDS = 240


@pytest.fixture
def send(client_config, make_topic):
    """Send rows to the partitions of a new topic; returns its name."""

    def send(partitions: Sequence[Sequence[Row]]) -> str:
        topic = make_topic(len(partitions))
        # Idempotent: else a retry may put a record behind a watermark record that followed it.
        producer = ordered_producer(client_config)
        for partition, rows in enumerate(partitions):
            messages = [{"key": key, "value": value} for key, value in rows]
            assert producer.produce_batch(topic, messages, partition=partition) == len(messages)
        assert producer.flush(60) == 0
        return topic

    return send


@pytest.fixture
def run(spark, bootstrap, tmp_path):
    """Start a query in folders of the test."""

    def run(topic: str, num_partitions: int, workload: Workload | None = None, **options):
        settings = {
            "num_shards": 2,
            "windows": Windows(10 * MINUTE_MS, MINUTE_MS),
            "results_dir": tmp_path / "results",
            "checkpoint_dir": tmp_path / "checkpoint",
            **options,
        }
        return engine.start(
            spark,
            workload or KeyedSum(),
            bootstrap=bootstrap,
            topic=topic,
            num_partitions=num_partitions,
            **settings,
        )

    return run


def keyed(timestamps: Sequence[int], seed: int = 0) -> list[Row]:
    random = np.random.default_rng(seed)
    keys = random.zipf(1.4, len(timestamps))
    return [
        (b"k%d" % min(key, 500), b"%d,-,%d" % (timestamp, timestamp % 7))
        for key, timestamp in zip(keys.tolist(), timestamps, strict=True)
    ]


def values_in(folder: Path) -> Values:
    rows = read_results(folder)
    values = {
        (int(row["window_start"].timestamp() * 1000), row["key"]): (row["count"], row["sum"])
        for row in rows
    }
    assert len(values) == len(rows)
    return values


TIMES = np.sort(np.random.default_rng(7).integers(0, 60 * MINUTE_MS, 20_000))


@pytest.mark.parametrize(
    ("num_partitions", "num_shards", "batch_records"),
    [(1, 1, 1_000_000), (3, 2, 7_777), (8, 5, 5_000)],
)
def test_every_window_is_exact(
    send, run, tmp_path: Path, num_partitions: int, num_shards: int, batch_records: int
) -> None:
    jitter = np.random.default_rng(8).integers(0, 3 * MINUTE_MS, len(TIMES))
    times = (TIMES - jitter).tolist()
    partitions = deal(
        keyed(times), times, num_partitions, slide_ms=MINUTE_MS, lateness_ms=2 * MINUTE_MS
    )
    naive = naive_sums(partitions, 10 * MINUTE_MS, MINUTE_MS)
    batches = []
    query = run(
        send(partitions),
        num_partitions,
        num_shards=num_shards,
        batch_records=batch_records,
        listener=batches.append,
    )
    assert query.await_end(END_SECONDS)
    summary = query.summary()
    assert naive.late > 0
    assert (summary.late, summary.on_time) == (naive.late, len(times) - naive.late)
    assert values_in(tmp_path / "results") == naive.values
    assert summary.rows == len(naive.values)
    assert batches[-1].records == len(times)
    assert sorted(summary.combine_seconds) == list(range(num_partitions))
    assert sorted(summary.reduce_seconds) == list(range(num_shards))
    assert summary.state_calls < 150
    assert len(summary.batch_seconds) == len(batches)


def test_keys_of_any_bytes(send, run, tmp_path: Path) -> None:
    keys: list[bytes | None] = [
        b"x",
        b"k" * 100_000,
        b"",
        None,
        b"\xff\xfe\x80",
        b"a\x00b",
        b"\x00",
    ]
    rows: list[Row] = [(key, b"%d,-,1" % (i * 1000)) for i in range(60) for key in keys]
    rows.append((b"x", b"no record"))
    rows.append((b"x", None))
    partitions = [[*rows, (None, encode_watermark(END_MS))]]
    query = run(send(partitions), 1)
    assert query.await_end(END_SECONDS)
    expected = naive_sums(
        [[row for row in rows if row[1] not in (b"no record", None)]], 600_000, 60_000
    )
    assert values_in(tmp_path / "results") == expected.values
    assert query.summary().dead == 2


def test_a_partition_20_minutes_behind_loses_nothing(send, run, tmp_path: Path) -> None:
    """Partition 1 is read in the same batches, yet stands 20 minutes of event time behind."""
    ahead_times = list(range(0, 60 * MINUTE_MS, 1000))
    behind_times = [time - 20 * MINUTE_MS for time in ahead_times]
    partitions = []
    for times in (ahead_times, behind_times):
        rows: list[Row] = []
        for low in range(0, len(times), 60):
            rows += keyed(times[low : low + 60], seed=low)
            rows.append((None, encode_watermark(times[low] // MINUTE_MS * MINUTE_MS)))
        partitions.append([*rows, (None, encode_watermark(END_MS))])
    query = run(send(partitions), 2, batch_records=2_000)
    assert query.await_end(END_SECONDS)
    naive = naive_sums(partitions, 10 * MINUTE_MS, MINUTE_MS)
    assert naive.late == query.summary().late == 0
    assert values_in(tmp_path / "results") == naive.values


def test_a_batch_done_again_leaves_the_same_results(send, run, tmp_path: Path) -> None:
    times = TIMES.tolist()
    partitions = deal(keyed(times), times, 3, slide_ms=MINUTE_MS)
    topic = send(partitions)
    assert run(topic, 3, batch_records=5_000, emit="changed").await_end(END_SECONDS)
    results = tmp_path / "results"
    before = {file.name: file.read_bytes() for file in results.glob("*.parquet")}
    log = BatchLog(results).read()
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    query = run(topic, 3, batch_records=5_000, emit="changed")
    query.process_available()
    assert query.await_end(END_SECONDS)
    assert {file.name: file.read_bytes() for file in results.glob("*.parquet")} == before
    again = BatchLog(results).read()
    assert [each["batch_id"] for each in again] == [each["batch_id"] for each in log]
    assert query.summary().records == len(times)
    assert len(before) > 2


@pytest.mark.parametrize("source", ["ours", "spark's"])
def test_a_query_goes_on_where_it_was_stopped(
    source: str, send, run, tmp_path: Path, client_config
) -> None:
    times = TIMES.tolist()
    partitions = deal(keyed(times), times, 2, slide_ms=MINUTE_MS)
    half = [rows[: len(rows) // 2] for rows in partitions]
    topic = send(half)
    query = run(topic, 2)
    query.process_available()
    assert not query.await_end(0)
    query.stop()
    if source == "spark's":
        # Checkpoints of before were written by Spark's own source.
        for file in (tmp_path / "checkpoint" / "offsets").iterdir():
            if file.name.isdigit():
                *head, offsets = file.read_text().splitlines()
                by_partition = json.dumps({topic: json.loads(offsets)[topic]}).replace(" ", "")
                file.write_text("\n".join([*head, by_partition]))
                file.with_name(f".{file.name}.crc").unlink()
    producer = ordered_producer(client_config)
    for partition, rows in enumerate(partitions):
        messages = [{"key": key, "value": value} for key, value in rows[len(rows) // 2 :]]
        producer.produce_batch(topic, messages, partition=partition)
    producer.flush()
    query = run(topic, 2)
    assert query.await_end(END_SECONDS)
    naive = naive_sums(partitions, 10 * MINUTE_MS, MINUTE_MS)
    assert values_in(tmp_path / "results") == naive.values
    assert query.summary().records == len(times)


@pytest.mark.parametrize(
    "asked", [True, False], ids=["with a question unread", "between questions"]
)
def test_a_planner_that_was_killed_is_named_and_nothing_is_lost(
    send, run, tmp_path: Path, client_config, asked: bool
) -> None:
    times = TIMES.tolist()
    (partition,) = deal(keyed(times), times, 1, slide_ms=MINUTE_MS)
    half = len(partition) // 2
    topic = send([partition[:half]])
    query = run(topic, 1)
    query.process_available()
    (planner,) = [
        each
        for each in psutil.Process().children(recursive=True)
        if each.status() != psutil.STATUS_ZOMBIE
        and "pyspark.sql.streaming.python_streaming_source_runner" in each.cmdline()
    ]
    if asked:
        planner.suspend()
        time.sleep(1)
    planner.kill()
    with pytest.raises(RunError, match=r"plans its batches has ended.*on the same checkpoint"):
        query.await_end(END_SECONDS)
    query.stop()
    producer = ordered_producer(client_config)
    messages = [{"key": key, "value": value} for key, value in partition[half:]]
    producer.produce_batch(topic, messages, partition=0)
    producer.flush()
    assert run(topic, 1).await_end(END_SECONDS)
    naive = naive_sums([partition], 10 * MINUTE_MS, MINUTE_MS)
    assert values_in(tmp_path / "results") == naive.values


def test_other_settings_on_a_checkpoint_are_refused(send, run) -> None:
    topic = send([[(None, encode_watermark(END_MS))]])
    assert run(topic, 1, num_shards=2).await_end(END_SECONDS)
    with pytest.raises(InputError, match=r"num_shards = 2, not 3: go on with 2"):
        run(topic, 1, num_shards=3)
    with pytest.raises(InputError, match=r"= 600000 ms by 60000 ms, not 600000 ms by 30000"):
        run(topic, 1, windows=Windows(10 * MINUTE_MS, 30_000))


def test_a_topic_with_other_partitions_is_refused(send, run, tmp_path: Path) -> None:
    topic = send([[(None, encode_watermark(END_MS))]] * 2)
    for asked in (1, 3):
        with pytest.raises(InputError, match=rf"has 2 partitions, not {asked}: say 2"):
            run(topic, asked)
    with pytest.raises(InputError, match="there is no topic nowhere: make it"):
        run("nowhere", 1)
    assert not list(tmp_path.glob("checkpoint*"))


def test_a_topic_made_anew_is_explained(send, run, tmp_path: Path) -> None:
    topic = send([[*keyed(list(range(1000))), (None, encode_watermark(END_MS))]])
    assert run(topic, 1).await_end(END_SECONDS)
    # What the checkpoint of a longer, deleted topic of that name looks like.
    offsets = tmp_path / "checkpoint" / "offsets"
    last = max(int(file.name) for file in offsets.iterdir() if file.name.isdigit())
    for number in range(last + 1):
        text = (offsets / str(number)).read_text()
        (offsets / str(number)).write_text(text.replace('{"0": 1001}', '{"0": 999999}'))
        (offsets / f".{number}.crc").unlink(missing_ok=True)
    with pytest.raises(RunError, match="another checkpoint folder"):
        run(topic, 1).await_end(END_SECONDS)


def test_an_error_in_a_worker_is_told_in_its_own_words(send, run) -> None:
    class Broken(KeyedSum):
        def decode(self, keys, values):  # noqa: ARG002  it does not come to that
            raise ZeroDivisionError("a fault of this workload")

    query = run(send([keyed([1, 2, 3])]), 1, Broken())
    told = r"query failed \(ZeroDivisionError: a fault of this workload\): start it again"
    with pytest.raises(RunError, match=told):
        query.await_end(END_SECONDS)


def test_spark_hashes_labels_as_we_do(spark) -> None:
    frame = spark.sql(
        "SELECT CAST(id AS INT) AS label, pmod(hash(CAST(id AS INT)), 7) AS p FROM range(50)"
    )
    assert all(spark_partition(row["label"], 7) == row["p"] for row in frame.collect())


def test_a_query_leaves_the_settings_of_its_session_alone(spark) -> None:
    names = ("shuffle.partitions", "codegen.wholeStage", "codegen.factoryMode")
    queried = query_session(spark, num_shards=3)
    assert [queried.conf.get(f"spark.sql.{name}") for name in names] == ["3", "false", "NO_CODEGEN"]
    assert [spark.conf.get(f"spark.sql.{name}") for name in names] == ["200", "true", "FALLBACK"]


def test_official_answers_of_debs_2015(send, run, tmp_path: Path) -> None:
    """Windows that slide by a second: the one that ends after a drop-off holds it last."""
    workload = create_workload("debs-q1")
    parser = workload.parser()
    assert workload.default_input is not None
    tables = [parser.parse(part).table for part in read_chunks(workload.default_input, pytest.fail)]
    table = pa.concat_tables(tables)
    rows = list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
    times = table["timestamp_ms"].to_pylist()
    partitions = deal(rows, times, 4, slide_ms=1000)
    query = run(send(partitions), 4, workload, windows=Windows(30 * MINUTE_MS, 1000), emit="top")
    assert query.await_end(END_SECONDS)
    assert query.summary().late == 0
    found: dict[str, list[str]] = {}
    for row in read_results(tmp_path / "results"):
        end = row["window_end"].timestamp() - 1
        found.setdefault(str(np.datetime64(int(end), "s")).replace("T", " "), []).append(
            row["route"]
        )
    official = official_top()
    assert {time: found[time] for time in official} == official
    assert len(official) > 40
    assert json.loads(json.dumps(query.summary().last_top[0]["count"])) == 1


def official_top() -> dict[str, list[str]]:
    """The last official answer at each drop-off time."""
    answers: dict[str, list[str]] = {}
    path = Path(__file__).parent.parent / "data" / "debs2015_expected_q1_halfopen.csv.gz"
    with gzip.open(path, "rt") as file:
        for line in file:
            _, dropoff, *cells = line.strip().split(",")
            answers[dropoff] = [
                f"{start}-{end}"
                for start, end in zip(cells[::2], cells[1::2], strict=True)
                if start != "NULL"
            ]
    return answers


def test_a_machine_too_slow_for_spark_only_takes_longer(
    send, run, spark, tmp_path, monkeypatch
) -> None:
    """Spark gives a Python process ten seconds to come; the first one here takes longer."""
    slow = tmp_path / "python"
    slow.write_text(
        "#!/bin/bash\n"
        f'if [[ "$*" == *driver_worker* ]] && mkdir {tmp_path}/was_slow 2>/dev/null; then\n'
        "  sleep 11\n"
        "fi\n"
        f'exec {sys.executable} "$@"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(slow))
    times = list(range(0, 30 * MINUTE_MS, MINUTE_MS))
    partitions = deal(keyed(times), times, 1, slide_ms=MINUTE_MS)
    run(send(partitions), 1).await_end()
    assert (tmp_path / "was_slow").exists()
    assert (
        values_in(tmp_path / "results") == naive_sums(partitions, 10 * MINUTE_MS, MINUTE_MS).values
    )
