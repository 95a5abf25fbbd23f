"""`pipelines.run` on a topic of JSON records, with a real broker and a real Spark."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

import pipelines
from partitioners.errors import InputError
from partitioners.kafka.topics import count_partitions
from pipelines.aggregates import Int64s
from tests.integration.sending import ordered_producer

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SIZE_MS, SLIDE_MS = 6_000, 1_000
OTHER_MS = 4_500


class Span(pipelines.Aggregate):
    """A user's own: bits of all values."""

    neutral = (0,)

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        return [np.int64(1) << (columns["price"] % 60)]

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        return a | b


def test_windows_over_a_topic_of_ones_own(spark, bootstrap, client_config, make_topic, tmp_path):
    topic = make_topic(3)
    random = np.random.default_rng(4)
    producer = ordered_producer(client_config)
    expected = defaultdict(list)
    dead = ["no json", json.dumps({"ts": 1}), json.dumps({"ts": 1, "user": "a", "price": "x"})]
    # One partition holds all of one user, so that every partition is in order.
    for i, cents in enumerate(random.integers(-500, 5_000, 2_000).tolist()):
        user = f"user-{cents % 7}"
        record = {"ts": i * 10, "user": user, "price": cents / 100}
        producer.produce(topic, json.dumps(record).encode(), partition=cents % 7 % 3)
        start = i * 10 // SLIDE_MS * SLIDE_MS
        while start + SIZE_MS > i * 10:
            expected[start, SIZE_MS, user].append(cents)
            start -= SLIDE_MS
        expected[i * 10 // OTHER_MS * OTHER_MS, OTHER_MS, user].append(cents)
    for text in dead:
        producer.produce(topic, text.encode(), partition=0)
    assert producer.flush(60) == 0
    query = pipelines.run(
        pipelines.Topic(name=topic, bootstrap=bootstrap, time="ts", decimals={"price": 2}),
        key="user",
        aggregates=[
            pipelines.Sum("spent", "price"),
            pipelines.Median("typical", "price"),
            pipelines.Min("least", "price"),
            pipelines.Distinct("prices", "price"),
            Span("span"),
        ],
        windows=[pipelines.Windows(SIZE_MS, SLIDE_MS), pipelines.Windows(OTHER_MS, OTHER_MS)],
        sink=tmp_path / "results",
        spark=spark,
    )
    try:
        query.process_available()
        progress, results = query.progress, query.results()
    finally:
        query.stop()
    # Nothing of Spark's is on its way any more: a script may end here.
    assert query._query.runId in query._listener.ended
    assert progress.records == 2_000
    assert progress.dead == len(dead)
    assert progress.on_time + progress.late + progress.dead == 2_000 + len(dead)
    assert len(repr(progress)) < 100
    found = {
        (
            round(row["window_start"].timestamp() * 1000),
            round((row["window_end"] - row["window_start"]).total_seconds() * 1000),
            row["user"],
        ): row
        for row in results.to_dicts()
    }
    # The last records of the partition that is behind close the last windows that are closed.
    closed = [place for place in expected if place[0] + place[1] <= 1_990 * 10 - 1_000]
    assert len(closed) > 50
    assert {size for _, size, _ in closed} == {SIZE_MS, OTHER_MS}
    for place in closed:
        cents, row = expected[place], found[place]
        span = 0
        for value in cents:
            span |= 1 << value % 60
        assert row["count"] == len(cents)
        assert row["spent"] == Decimal(sum(cents)).scaleb(-2)
        assert row["typical"] == np.median(cents) / 100
        assert row["least"] == Decimal(min(cents)).scaleb(-2)
        assert row["prices"] == len(set(cents))
        assert row["span"] == span


def test_a_topic_that_is_not_there_is_named(spark, bootstrap, tmp_path):
    with pytest.raises(InputError, match='there is no topic "nowhere"'):
        pipelines.run(
            pipelines.Topic(name="nowhere", bootstrap=bootstrap, time="ts"),
            windows=pipelines.Windows.of("1 min"),
            sink=tmp_path,
            spark=spark,
        )


def test_an_idle_partition_and_one_that_is_added(
    spark, bootstrap, client_config, make_topic, tmp_path
):
    """Neither holds windows back, and the query goes on with the new number of partitions."""
    topic = make_topic(2)
    producer = ordered_producer(client_config)
    sent = []

    def send(partition: int, first: int, num_records: int) -> None:
        for i in range(first, first + num_records):
            sent.append(i * 100)
            record = {"ts": i * 100, "user": f"user-{i % 5}"}
            producer.produce(topic, json.dumps(record).encode(), partition=partition)
        assert producer.flush(60) == 0

    def start():
        return pipelines.run(
            pipelines.Topic(name=topic, bootstrap=bootstrap, time="ts"),
            key="user",
            windows=pipelines.Windows(SIZE_MS, SLIDE_MS),
            sink=tmp_path / "results",
            lateness_ms=1_000,
            spark=spark,
        )

    send(0, 0, 300)
    query = start()
    try:
        query.process_available()
        assert query.progress.on_time == 300
        # Partition 1 is idle, yet the windows of partition 0 are closed.
        assert query.progress.windows > 20
        admin = AdminClient(client_config)
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
        deadline = time.monotonic() + 60
        while count_partitions(admin, topic) != 3:
            assert time.monotonic() < deadline
        # Made after the client knew the topic: a new one sees three partitions.
        producer = ordered_producer(client_config)
        send(2, 300, 300)
        # The query that runs takes them up, whenever Spark hears of the partition.
        deadline = time.monotonic() + 60
        while query.progress.records_per_partition.get(2) != 300:
            assert time.monotonic() < deadline, query.progress.records_per_partition
            query.process_available()
        assert query.progress.records_per_partition[0] == 300
        assert query.progress.late == 0
    finally:
        query.stop()
    query = start()
    try:
        send(1, 600, 100)
        send(2, 700, 100)
        query.process_available()
        progress, results = query.progress, query.results()
    finally:
        query.stop()
    assert progress.records == len(sent)
    assert progress.late == 0
    assert progress.records_per_partition == {0: 300, 1: 100, 2: 400}
    counts = defaultdict(int)
    for ts in sent:
        for at in range(ts - ts % SLIDE_MS, ts - SIZE_MS, -SLIDE_MS):
            counts[at, f"user-{ts // 100 % 5}"] += 1
    found = {
        (round(row["window_start"].timestamp() * 1000), row["user"]): row["count"]
        for row in results.to_dicts()
    }
    assert found == {place: counts[place] for place in found}
    assert len(found) > 300


def test_late_records_update_windows_that_were_written(
    spark, bootstrap, client_config, make_topic, tmp_path
):
    topic = make_topic(1)
    producer = ordered_producer(client_config)

    def send(*times: int) -> None:
        for ts in times:
            producer.produce(topic, json.dumps({"ts": ts, "user": "a"}).encode(), partition=0)
        assert producer.flush(60) == 0

    query = pipelines.run(
        pipelines.Topic(name=topic, bootstrap=bootstrap, time="ts"),
        key="user",
        windows=pipelines.Windows(1_000, 1_000),
        sink=tmp_path / "results",
        update_ms=5_000,
        spark=spark,
    )
    try:
        send(100, 200, 2_500)
        query.process_available()
        # The window of the first two is out; both later ones are late for it, the third too late.
        send(300, 6_100, 50)
        query.process_available()
        progress, results = query.progress, query.results()
    finally:
        query.stop()
    assert (progress.on_time, progress.late) == (5, 1)
    rows = {
        (round(row["window_start"].timestamp() * 1000), row["revision"]): row["count"]
        for row in results.to_dicts()
    }
    assert rows == {(0, 0): 2, (0, 1): 3, (2_000, 0): 1}


def test_sessions_of_a_topic(spark, bootstrap, client_config, make_topic, tmp_path):
    topic = make_topic(2)
    producer = ordered_producer(client_config)
    # The sessions of "a" lie in both partitions; those of "b" end by a pause each.
    for partition, user, times in (
        (0, "a", (0, 4_000, 50_000)),
        (1, "a", (2_500, 6_000, 51_000)),
        (0, "b", (51_000, 90_000)),
        (1, "b", (20_000, 90_500)),
    ):
        for ts in times:
            record = {"ts": ts, "user": user, "price": ts // 1000}
            producer.produce(topic, json.dumps(record).encode(), partition=partition)
    assert producer.flush(60) == 0
    query = pipelines.run(
        pipelines.Topic(name=topic, bootstrap=bootstrap, time="ts"),
        key="user",
        aggregates=[pipelines.Max("most", "price"), pipelines.Median("typical", "price")],
        windows=pipelines.Sessions.of("3 s"),
        sink=tmp_path / "results",
        spark=spark,
        lateness_ms=40_000,
    )
    try:
        query.process_available()
        progress, results = query.progress, query.results()
    finally:
        query.stop()
    assert (progress.on_time, progress.late) == (10, 0)
    found = sorted(
        (
            row["user"],
            *(round(row[f"window_{at}"].timestamp() * 1000) for at in ("start", "end")),
            *(row[name] for name in ("count", "most", "typical")),
        )
        for row in results.to_dicts()
    )
    # Watermarks stand at 50,000: what began then is still open.
    assert found == [("a", 0, 9_000, 4, 6, 3.0), ("b", 20_000, 23_000, 1, 20, 20.0)]
