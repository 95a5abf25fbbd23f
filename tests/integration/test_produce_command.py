"""`keyspread produce`: lines from a file or standard input arrive where the partitioner says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from partitioners import create
from pipelines.cli import main
from tests.integration.programs import COMMAND, ROOT
from tests.integration.reading import read_topic

pytestmark = pytest.mark.broker


@pytest.fixture
def produce(
    bootstrap: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, Any, str]]:
    """Run `keyspread produce --json` here; gives exit code, the object, stderr."""

    def run(*args: object) -> tuple[int, Any, str]:
        capfd.readouterr()
        fixed = ["--bootstrap", bootstrap, "--dead-letters", tmp_path / "dead.jsonl", "--json"]
        try:
            # What is said twice counts as it is said last.
            main([str(arg) for arg in ["produce", *fixed, *args]])
        except SystemExit as left:
            code = int(left.code or 0)
        out, err = capfd.readouterr()
        return code, json.loads(out), err

    return run


def test_key_tab_value(
    produce: Any, make_topic: Any, client_config: dict[str, object], tmp_path: Path
) -> None:
    topic = make_topic(4)
    lines = [f"key-{i % 7}\tvalue {i}" for i in range(1_000)]
    path = tmp_path / "in.txt"
    path.write_text("\n".join([*lines[:10], "no tab", *lines[10:]]) + "\n")
    code, result, _ = produce("--topic", topic, "--input", path, "--partitioner", "pkg")
    assert code == 0
    assert (result["produced"], result["delivered"], result["dead"]) == (1_000, 1_000, 1)
    records = read_topic(client_config, topic)
    sent = [line.encode().partition(b"\t")[::2] for line in lines]
    assert sorted((record.key, record.value) for record in records) == sorted(sent)
    expected = create("pkg", 4).partition_batch([key for key, _ in sent])
    assert result["records_per_partition"] == [int((expected == p).sum()) for p in range(4)]
    dead = json.loads((tmp_path / "dead.jsonl").read_text())
    assert (dead["line_number"], dead["reason"]) == (11, "no delimiter between key and value")


def test_a_column_is_the_key_and_the_line_the_value(
    produce: Any, make_topic: Any, client_config: dict[str, object], tmp_path: Path
) -> None:
    topic = make_topic(2)
    path = tmp_path / "in.csv"
    path.write_text("1,a,x\n2,b,y\nshort\n3,a,z\nsoon,c,w\n")
    columns = ["--delimiter", ",", "--key-column", 2, "--time-column", 1]
    code, result, _ = produce("--topic", topic, "--input", path, *columns, "--partitioner", "cam")
    assert code == 0
    assert (result["delivered"], result["dead"]) == (3, 2)
    records = read_topic(client_config, topic)
    assert {(record.key, record.value) for record in records} == {
        (b"a", b"1,a,x"),
        (b"b", b"2,b,y"),
        (b"a", b"3,a,z"),
    }


def test_standard_input(
    bootstrap: str, make_topic: Any, client_config: dict[str, object], tmp_path: Path
) -> None:
    topic = make_topic(1)
    args = ["produce", "--topic", topic, "--bootstrap", bootstrap, "--json"]
    ran = subprocess.run(
        [*COMMAND, *args, "--dead-letters", str(tmp_path / "dead.jsonl")],
        input=b"k\t1\nk\t2\n",
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    assert json.loads(ran.stdout)["delivered"] == 2
    assert [record.value for record in read_topic(client_config, topic)] == [b"1", b"2"]


def test_another_partition_count_than_asked(produce: Any, make_topic: Any, tmp_path: Path) -> None:
    topic = make_topic(4)
    path = tmp_path / "in.txt"
    path.write_text("k\tv\n")
    code, result, err = produce("--topic", topic, "--input", path, "--partitions", 8)
    assert code == 2
    assert f'topic "{topic}" has 4 partitions, not 8' in err
    assert result["error"]["exit_code"] == 2


@pytest.mark.parametrize(
    ("topic", "sentence"),
    [
        ("nowhere", 'there is no topic "nowhere": create it, or say --partitions 8'),
        ("no name!", '"no name!" is no name for a topic'),
    ],
)
def test_a_topic_that_is_none(produce: Any, tmp_path: Path, topic: str, sentence: str) -> None:
    path = tmp_path / "in.txt"
    path.write_text("k\tv\n")
    code, _, err = produce("--topic", topic, "--input", path)
    assert code == 2
    assert sentence in err


def test_a_compacted_topic_keeps_keys_whole(produce: Any, make_topic: Any, tmp_path: Path) -> None:
    topic = make_topic(2, {"cleanup.policy": "compact"})
    path = tmp_path / "in.txt"
    path.write_text("k\tv\n")
    code, _, err = produce("--topic", topic, "--input", path, "--partitioner", "pkg")
    assert code == 2
    assert "is compacted" in err
    code, result, _ = produce(
        "--topic", topic, "--input", path, "--partitioner", "pkg", "--allow-compacted"
    )
    assert (code, result["delivered"]) == (0, 1)


def test_input_without_a_record(produce: Any, make_topic: Any, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("none here\n")
    code, _, err = produce("--topic", make_topic(1), "--input", path)
    assert code == 2
    assert "no record in the input: 1 bad lines" in err


def test_bad_lines_that_cannot_be_kept(produce: Any, make_topic: Any, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("k\tv\nno tab\n")
    args = ["--topic", make_topic(1), "--input", path, "--dead-letters"]
    for place, reason in (
        ("/dev/full", "No space left on device"),
        (tmp_path, "Is a directory"),
        (path / "below", "Not a directory"),
    ):
        code, _, err = produce(*args, place)
        assert code == 2
        assert f"cannot write the bad lines to {place} ({reason}): free some space" in err
    assert Path("/dev/full").is_char_device()
