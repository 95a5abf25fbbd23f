"""`keyspread advise` on live topics of the real broker."""

from __future__ import annotations

import json
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from partitioners import PARTITIONERS, create
from partitioners.streams import uniform, zipf
from pipelines.cli import main
from pipelines.key_names import redact_key
from tests.integration.programs import COMMAND, ROOT
from tests.integration.sending import ordered_producer

pytestmark = pytest.mark.broker

Advise = Callable[..., tuple[int, str, str]]
NOW_MS = 1_700_000_000_000


@pytest.fixture
def advise(bootstrap: str, capfd: pytest.CaptureFixture[str]) -> Advise:
    """Run `keyspread advise` here; gives exit code, stdout, stderr."""

    def run(*args: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = 0
        try:
            # What is said twice counts as it is said last.
            main([str(arg) for arg in ["advise", "--bootstrap", bootstrap, *args]])
        except SystemExit as left:
            code = int(left.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def found(advise: Advise) -> Callable[..., dict[str, Any]]:
    def run(*args: object) -> dict[str, Any]:
        code, out, err = advise(*args, "--json")
        assert code == 0, err
        return dict(json.loads(out))

    return run


@pytest.fixture
def fill(client_config: dict[str, object], make_topic: Any) -> Callable[..., str]:
    """Send keys to a new topic, where a partitioner says, a record each ms."""

    def run(
        keys: Sequence[bytes | None],
        num_partitions: int = 8,
        partitioner: str = "key_hash",
        topic: str | None = None,
        start_ms: int = NOW_MS,
        **topic_config: str,
    ) -> str:
        topic = topic or make_topic(num_partitions, topic_config)
        producer = ordered_producer(client_config)
        places = create(partitioner, num_partitions).partition_batch(list(keys)).tolist()
        for i, (key, place) in enumerate(zip(keys, places, strict=True)):
            producer.produce(topic, b"v", key, partition=place, timestamp=start_ms + i)
        assert producer.flush(60) == 0
        return topic

    return run


SKEWED = [key.encode() for key in zipf(30_000).keys.to_pylist()]


def test_a_skewed_topic(
    advise: Advise, found: Any, fill: Any, client_config: dict[str, object], bootstrap: str
) -> None:
    topic = fill(SKEWED)
    advice = found("--topic", topic)
    assert (advice["records"], advice["keys"]) == (30_000, len(set(SKEWED)))
    assert advice["seconds"] == pytest.approx(29.999)
    (name, most), *_ = Counter(SKEWED).most_common(1)
    assert advice["hot_keys"][0] == {"key": name.decode(), "share": most / 30_000}
    assert f"key {name.decode()} alone is 33.0 %" in advice["cannot_be_hashed"]
    counts = np.bincount(create("key_hash", 8).partition_batch(SKEWED), minlength=8)
    assert advice["present"]["records_per_partition"] == counts.tolist()
    rows = {row["partitioner"]: row for row in advice["partitioners"]}
    assert rows.keys() == PARTITIONERS.keys()
    assert rows["key_hash"]["imbalance"] == pytest.approx(advice["present"]["imbalance"])
    chosen = advice["recommendation"]
    assert rows[chosen["partitioner"]]["work"] < 0.6 * rows["key_hash"]["work"]
    assert rows[chosen["partitioner"]]["not_advised"] is None
    assert "order per key is given up" in chosen["reason"]
    # The lines to paste run, and name the topic and the servers.
    assert f'"{bootstrap}"' in chosen["code"]
    exec(chosen["code"], {})
    assert found("--topic", topic)["records"] == 30_001
    # Nobody's group was joined, and no offset committed.
    groups = AdminClient(client_config).list_consumer_groups().result()
    assert not [each.group_id for each in groups.valid if "advise" in each.group_id]
    code, text, _ = advise("--topic", topic)
    assert code == 0
    assert f"use {chosen['partitioner']}: " in text
    assert "Holistic's rule" in text


def test_a_group_that_reads_the_topic_is_left_alone(
    found: Any, fill: Any, client_config: dict[str, object]
) -> None:
    topic = fill(SKEWED[:100], num_partitions=2)
    revoked: list[TopicPartition] = []
    consumer = Consumer(
        {**client_config, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic], on_revoke=lambda _consumer, parts: revoked.extend(parts))
        read = 0
        while read < 100:
            read += len(consumer.consume(100, timeout=10))
        consumer.commit(asynchronous=False)
        assert found("--topic", topic)["records"] == 100
        consumer.poll(0.0)
        assert revoked == []
        asked = [TopicPartition(topic, p) for p in range(2)]
        assert sum(each.offset for each in consumer.committed(asked, timeout=10)) == 100
    finally:
        consumer.close()


def test_keys_are_hidden_when_asked(advise: Advise, fill: Any) -> None:
    topic = fill([b"secret-1"] * 300 + [b"secret-2"] * 100 + [b"\xff secret"] * 50)
    for options in ([], ["--json"]):
        code, out, _ = advise("--topic", topic, "--redact", *options)
        assert code == 0
        assert "secret" not in out
        assert redact_key(b"secret-1") in out


def test_even_keys_stay_with_plain_hashing(advise: Advise, found: Any, fill: Any) -> None:
    keys = [key.encode() for key in uniform(30_000, num_keys=10_000).keys.to_pylist()]
    topic = fill(keys)
    advice = found("--topic", topic)
    chosen = advice["recommendation"]
    assert (chosen["partitioner"], chosen["code"]) == ("present", "")
    assert "and every key is whole" in chosen["reason"]
    assert f"(imbalance {advice['present']['imbalance']:.3f})" in chosen["reason"]
    assert advice["present"]["figures"]["replication_factor"] == 1
    assert advice["cannot_be_hashed"] is None
    code, text, _ = advise("--topic", topic)
    assert code == 0
    assert "nothing need be done: the load is" in text
    assert "as it is: keep it" in text
    assert "PartitionedProducer" not in text
    # What if it had four partitions? Then nothing is there yet.
    assert found("--topic", topic, "--partitions", 4)["recommendation"]["partitioner"] == "key_hash"


def test_a_topic_filled_at_once_is_not_taken_for_drift(
    found: Any, client_config: dict[str, object], make_topic: Any
) -> None:
    """Spread by `hot_fill`, sent partition after partition within a tenth of a second."""
    topic = make_topic(8)
    producer = ordered_producer(client_config)
    places = create("hot_fill", 8).partition_batch(SKEWED)
    for i, at in enumerate(np.argsort(places, kind="stable").tolist()):
        stamp = NOW_MS + i // 300
        producer.produce(topic, b"v", SKEWED[at], partition=int(places[at]), timestamp=stamp)
    assert producer.flush(60) == 0
    for options in ((), ("--records", 10_000)):  # the last of them are all of one partition
        advice = found("--topic", topic, *options)
        assert advice["present"]["imbalance"] < 0.01
        rows = {row["partitioner"]: row for row in advice["partitioners"]}
        assert rows["hot_fill"]["imbalance"] < 0.01
        assert advice["recommendation"]["partitioner"] == "present"


def test_a_compacted_topic_keeps_its_keys_whole(found: Any, fill: Any) -> None:
    topic = fill(SKEWED[:5_000], **{"cleanup.policy": "compact,delete"})
    advice = found("--topic", topic)
    assert advice["compacted"] is True
    assert advice["recommendation"]["partitioner"] == "present"
    assert "every key is whole as it is" in advice["recommendation"]["reason"]
    assert "the topic is compacted" in advice["recommendation"]["reason"]


def test_order_per_key_keeps_keys_whole(found: Any, fill: Any) -> None:
    advice = found("--topic", fill(SKEWED[:5_000]), "--keep-order")
    assert advice["compacted"] is False
    assert advice["recommendation"]["partitioner"] == "present"
    assert "order per key is needed" in advice["recommendation"]["reason"]
    assert "hashing cannot fix it" in advice["cannot_be_hashed"]


def test_one_partition_leaves_no_choice(found: Any, fill: Any) -> None:
    topic = fill(SKEWED[:2_000], num_partitions=1)
    advice = found("--topic", topic)
    assert advice["recommendation"]["partitioner"] == "key_hash"
    assert "add partitions first" in advice["recommendation"]["reason"]
    assert advice["cannot_be_hashed"] is None
    # What if it had more?
    assert found("--topic", topic, "--partitions", 8)["recommendation"]["partitioner"] != "key_hash"


def test_null_keys_and_keys_that_are_no_text(found: Any, fill: Any) -> None:
    odd = [b"\xff\xfe"] * 400 + [None] * 500 + [b""] * 50 + [b"\x1b[2J"] * 50
    advice = found("--topic", fill(odd, num_partitions=2))
    assert (advice["records"], advice["null_keys"], advice["keys"]) == (1_000, 500, 3)
    shown = [each["key"] for each in advice["hot_keys"]]
    assert shown == ["b'\\xff\\xfe'", "(empty)", "\\x1b[2J"]
    assert advice["hot_keys"][0]["share"] == 0.4
    assert any("50.0 % of the records have no key" in n for n in advice["recommendation"]["notes"])
    nothing_but_null = found("--topic", fill([None] * 1_000))
    assert nothing_but_null["recommendation"]["partitioner"] == "shuffle"
    assert nothing_but_null["hot_keys"] == []


def test_the_newest_records_are_looked_at_whatever_partitions_keep(found: Any, fill: Any) -> None:
    """Long ago one key had all; of late another has, and its partition is the fuller one now."""
    topic = fill([b"old"] * 4_000, num_partitions=4, start_ms=NOW_MS)
    fill([b"new"] * 1_000, 4, topic=topic, start_ms=NOW_MS + 10**9)
    advice = found("--topic", topic, "--records", 1_000)
    assert [each["key"] for each in advice["hot_keys"]] == ["new"]
    place = create("key_hash", 4).partition(b"new")
    assert advice["present"]["records_per_partition"] == [1_000 * (p == place) for p in range(4)]


def test_where_times_do_not_tell_what_is_kept_stands_for_load(
    client_config: dict[str, object], found: Any, make_topic: Any
) -> None:
    topic = make_topic(2)
    producer = ordered_producer(client_config)
    for i in range(4_000):
        producer.produce(topic, b"v", b"k%d" % i, partition=int(i % 4 == 0), timestamp=NOW_MS)
    producer.flush()
    advice = found("--topic", topic, "--records", 400)
    assert advice["present"]["records_per_partition"] == [300, 100]
    assert advice["records"] == 400
    assert any("times do not tell" in note for note in advice["recommendation"]["notes"])


def test_watermark_records_of_our_runs_are_no_records(found: Any, fill: Any) -> None:
    from pipelines.punctuation import encode_watermark

    topic = fill([b"a"] * 1_000, num_partitions=2)
    assert found("--topic", topic)["null_keys"] == 0
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": _servers(found, topic)})
    producer.produce(topic, encode_watermark(5), None, partition=0)
    producer.flush()
    assert found("--topic", topic)["null_keys"] == 0


def _servers(found: Any, topic: str) -> str:
    return str(found("--topic", topic)["source"]).rpartition(" ")[2]


def test_what_cannot_be_looked_at_is_refused_in_a_sentence(
    advise: Advise, make_topic: Any, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = make_topic(3)
    code, out, err = advise("--topic", empty)
    assert (code, out) == (2, "")
    assert f"topic {empty} holds no records" in err
    code, _, err = advise("--topic", empty[:-1])
    assert code == 2
    assert f'there is no topic "{empty[:-1]}"' in err
    assert f'did you mean "{empty}"?' in err
    monkeypatch.setattr("pipelines.topics.ANSWER_SECONDS", 1.0)
    code, _, err = advise("--topic", empty, "--bootstrap", f"127.0.0.1:{silent_port}")
    assert code == 2
    assert "no answer from the Kafka servers" in err
    for options, sentence in (
        (["--topic", empty, "--records", "0"], "--records must be 1 to 50,000,000"),
        (["--topic", empty, "--seconds", "-1"], "--seconds must be above 0"),
        (["--topic", empty, "--window-ms", "0"], "--window-ms must be 1 or more"),
        (["--topic", empty, "--producers", "0"], "--producers must be 1 to 10,000"),
        (["--topic", empty, "--keys", "-"], "give one of --topic, --input and --keys"),
        ([], "give one of --topic, --input and --keys"),
        (["--topic", "no good"], "no topic"),
    ):
        code, out, err = advise(*options)
        assert code == 2, options
        assert sentence in err
        assert err.count("\n") == 1
        assert out == ""


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_keys_from_a_pipe_that_does_not_end() -> None:
    """Time is up after a second, though the writer keeps its end open."""
    command = [*COMMAND, "advise", "--keys", "-", "--seconds", "1", "--json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(b"a\n" * 900 + b"\xff\n" * 99 + b"unfinished")
        program.stdin.flush()
        advice = json.loads(program.stdout.readline())
        assert program.wait(60) == 0
    assert (advice["records"], advice["keys"]) == (999, 2)


def test_a_file_with_columns(found: Any, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("".join(f"{i * 100},key-{i % 3},x\n" for i in range(3_000)) + "bad\n")
    columns = ["--delimiter", ",", "--key-column", 2, "--time-column", 1]
    advice = found("--input", path, *columns, "--window-ms", 10_000, "--partitions", 4)
    assert (advice["records"], advice["keys"], advice["seconds"]) == (3_000, 3, 299.9)
    # Three keys over 4 partitions: even only when they are split; few groups, so the rule agrees.
    assert advice["recommendation"]["partitioner"] != "key_hash"
    assert advice["holistic_rule"]["chosen"] == "am or cam"
    assert any("1 lines without a key" in note for note in advice["recommendation"]["notes"])
