"""Lines from files of every kind: plain, gzip, any encoding, broken in every way."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path

import pytest

from partitioners.errors import InputError
from pipelines.dead_letters import DeadLetters
from pipelines.text_input import (
    BLOCK_BYTES,
    MAX_LINE_BYTES,
    RejectedLine,
    check_input,
    read_chunks,
)


def lines_of(
    path: Path, *, encoding: str = "auto", lines_per_chunk: int = 50_000
) -> tuple[dict[int, str], list[RejectedLine]]:
    """All lines by number, and the rejected ones."""
    rejected: list[RejectedLine] = []
    found: dict[int, str] = {}
    for chunk in read_chunks(
        path, rejected.append, encoding=encoding, lines_per_chunk=lines_per_chunk
    ):
        assert 0 < len(chunk.lines) <= lines_per_chunk
        found.update(enumerate(chunk.lines, chunk.first_line_number))
    return found, rejected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\n", {1: "a", 2: "b"}),
        (b"a\nb", {1: "a", 2: "b"}),
        (b"a\r\nb\r\n", {1: "a", 2: "b"}),
        (b"\n\na\n", {1: "", 2: "", 3: "a"}),
        (b"a\x0bb\x0cc\x1cd\xc2\x85e\n", {1: "a\x0bb\x0cc\x1cd\x85e"}),
        ("é\nü\n".encode(), {1: "é", 2: "ü"}),
        ("é\n".encode() + "Oblonskys\u2019\n".encode("cp1252"), {1: "é", 2: "Oblonskys\u2019"}),
        (b"\xef\xbb\xbfa\n", {1: "a"}),
        ("a\nü\n".encode("utf-16"), {1: "a", 2: "ü"}),
        (b"a\x00b\n", {1: "a\x00b"}),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_auto_reads(tmp_path: Path, content: bytes, expected: dict[int, str], packed: bool) -> None:
    path = tmp_path / "input.txt"
    path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    check_input(path)
    assert lines_of(path) == (expected, [])


@pytest.mark.parametrize(
    "encoding", ["utf-8", "cp1252", "latin-1", "utf-16", "utf-32", "shift_jis"]
)
def test_a_named_encoding_reads_what_it_wrote(tmp_path: Path, encoding: str) -> None:
    text = "ア\nb" if encoding in ("utf-8", "utf-16", "utf-32", "shift_jis") else "ü\nb"
    path = tmp_path / "input.txt"
    path.write_bytes(text.encode(encoding))
    check_input(path, encoding)
    assert lines_of(path, encoding=encoding) == (dict(enumerate(text.split("\n"), 1)), [])


@pytest.mark.parametrize("lines_per_chunk", [1, 77, 100_000])
def test_chunks_do_not_change_the_lines(tmp_path: Path, lines_per_chunk: int) -> None:
    # Longer than two blocks, with a line of more than a block in the middle.
    lines = [f"line {i}" for i in range(1000)]
    lines += ["x" * (BLOCK_BYTES + 5)] + [f"zeile {i} ü" for i in range(30_000)]
    path = tmp_path / "input.txt"
    path.write_bytes("\n".join(lines).encode())
    found, rejected = lines_of(path, lines_per_chunk=lines_per_chunk)
    assert list(found.values()) == lines
    assert rejected == []


def test_lines_that_cannot_be_decoded_are_rejected_with_their_number(tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    # 0x81 is in neither encoding.
    path.write_bytes(b"one\n\x81\xff\nthree\nfo\x8dur\nfive\n")
    found, rejected = lines_of(path)
    assert found == {1: "one", 3: "three", 5: "five"}
    assert [(line.line_number, line.reason) for line in rejected] == [
        (2, "cannot be decoded: byte 1 is 0x81"),
        (4, "cannot be decoded: byte 3 is 0x8d"),
    ]
    assert rejected[0].text == "\\x81\\xff"


def test_a_later_line_in_another_encoding_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    path.write_bytes(b"plain\n" * (BLOCK_BYTES // 6 + 1) + b"\xe9\nend\n")
    check_input(path, "utf-8")
    found, rejected = lines_of(path, encoding="utf-8")
    number = BLOCK_BYTES // 6 + 2
    assert [line.line_number for line in rejected] == [number]
    assert found[number + 1] == "end"


def test_broken_utf_16_is_rejected_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    lone_surrogate = b"\x00\xd8"
    path.write_bytes("a\n".encode("utf-16-le") + lone_surrogate + "b\nc\n".encode("utf-16-le"))
    found, rejected = lines_of(path, encoding="utf-16-le")
    assert found == {1: "a", 3: "c"}
    assert [line.line_number for line in rejected] == [2]


def test_a_line_without_end_is_rejected_not_collected_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    path.write_bytes(b"a\n" + b"x" * (MAX_LINE_BYTES + 1) + b"\nb\n")
    found, rejected = lines_of(path)
    assert found == {1: "a", 3: "b"}
    assert rejected[0].line_number == 2
    assert "longer than" in rejected[0].reason


def truncated(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)[:-9]


@pytest.mark.parametrize(
    ("content", "encoding", "sentence"),
    [
        (b"", "auto", "is empty"),
        (gzip.compress(b"", mtime=0), "auto", "is empty"),
        (truncated(bytes(100_000)), "auto", "is truncated: it ends after"),
        (gzip.compress(b"abc", mtime=0)[:-8] + bytes(8), "auto", "is damaged after"),
        (b"BZh91AY", "auto", "is packed as bzip2: unpack it"),
        (b"PK\x03\x04..", "auto", "is packed as zip"),
        (b"one\ntwo\xe9\n", "utf-8", "line 2 of"),
        (b"one\ntwo\xe9\n", "utf-8", "byte 8 is 0xe9): say --encoding cp1252"),
        ("ü\n".encode(), "ascii", "say --encoding utf-8"),
        (b"a\n", "utf-9", 'unknown encoding "utf-9"'),
        (b"a\n", "base64", 'unknown encoding "base64"'),
    ],
)
def test_bad_input_is_refused_with_the_mend(
    tmp_path: Path, content: bytes, encoding: str, sentence: str
) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        check_input(path, encoding)
    assert sentence in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        check_input(tmp_path / "missing")
    with pytest.raises(InputError, match="is a folder"):
        check_input(tmp_path)


def test_a_truncated_gzip_gives_what_could_be_read_first(tmp_path: Path) -> None:
    path = tmp_path / "input.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % i for i in range(1_000_000)))[:-1000])
    found: list[str] = []

    def read() -> None:
        for chunk in read_chunks(path, lambda _line: None):
            found.extend(chunk.lines)

    with pytest.raises(InputError, match="unpacked bytes"):
        read()
    assert len(found) > 100_000


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "input.gz"
    path.write_bytes(gzip.compress(random.Random(5).randbytes(3 * BLOCK_BYTES)))
    positions: list[int] = []
    list(read_chunks(path, lambda _line: None, on_bytes=positions.append))
    assert positions[-1] == path.stat().st_size


def test_dead_letters_are_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "dead-letters.jsonl"
    path.write_text("left by an earlier attempt\n")
    with DeadLetters(path) as dead:
        dead.add(RejectedLine("in.csv", 3, "no number", "a,ü"))
    assert dead.count == 1
    assert path.read_text() == (
        '{"path": "in.csv", "line_number": 3, "reason": "no number", "text": "a,\\u00fc"}\n'
    )


def test_dead_letters_that_are_kept_stay_before_the_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "dead-letters.jsonl"
    path.write_text("of another command\n")
    with DeadLetters(path, keep=True) as dead:
        dead.add(RejectedLine("in.csv", 3, "no number", "a"))
    assert dead.count == 1
    first, second = path.read_text().splitlines()
    assert first == "of another command"
    assert json.loads(second)["line_number"] == 3


def test_the_check_leaves_a_pipe_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    keeper = os.open(pipe, os.O_RDWR)  # as a reader and a writer, it waits for nobody
    try:
        os.write(keeper, b"a\nb\n")
        check_input(pipe)
        assert os.read(keeper, 100) == b"a\nb\n"
    finally:
        os.close(keeper)
