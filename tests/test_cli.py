"""Bad input: one clear sentence with the mend, exit code 2, and nothing started."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.cli import main

Keyspread = Callable[..., tuple[int, str, str]]


@pytest.fixture
def keyspread(capfd: pytest.CaptureFixture[str]) -> Keyspread:
    """Run a command in this process; gives exit code, stdout, stderr."""

    def run(*args: object) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(arg) for arg in args])
        out, err = capfd.readouterr()
        return int(left.value.code or 0), out, err

    return run


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("one two two three\n")
    return path


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which no broker was started."""
    monkeypatch.setenv("KEYSPREAD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


WRONG_OPTIONS = [
    (["wordcuont"], 'unknown workload "wordcuont": did you mean "wordcount"?'),
    ([], "name a workload"),
    (["wordcount", "--partitioner", "pgk"], 'did you mean "pkg"?'),
    (["wordcount", "--partitioner", "pkg,cam"], "`keyspread grid run wordcount --partitioner pkg,"),
    (["wordcount", "--partitioner", "pkg:dd=3"], 'no option "dd"'),
    (["wordcount", "--partitioner", "pkg:d=3", "--option", "d=2"], "d of pkg was given twice"),
    (["wordcount", "--partitioner", "pkg", "--option", "dd=3"], 'no option "dd"'),
    (["wordcount", "--partitioner", "pkg", "--option", "d=0"], "d must be a whole number from"),
    (["wordcount", "--option", "d"], '--option "d" is not key=value'),
    (["wordcount", "--option", "d=1", "--option", "d=2"], "--option d was given twice"),
    (["wordcount", "--workload-option", "event_rat=3"], 'did you mean "event_rate"?'),
    (["wordcount", "--workload-option", "event_rate=0"], "event_rate must be from 1"),
    (["wordcount", "--partitions", "0"], "--partitions must be 1 to 10,000, not 0"),
    (["wordcount", "--partitions", "10001"], "--partitions must be 1 to 10,000"),
    (["wordcount", "--sources", "0"], "--sources must be 1 to 10,000, not 0"),
    (["wordcount", "--shards", "-1"], "--shards must be 1 to 1,000, not -1"),
    (["wordcount", "--window-ms", "0"], "--window-ms must be 1 or more, not 0"),
    (["wordcount", "--window-ms", "10", "--slide-ms", "20"], "larger than --window-ms 10"),
    (["wordcount", "--window-ms", "60000", "--slide-ms", "7000"], "a slide such as 6000"),
    (["wordcount", "--window", "1 min/7 s"], "--slide-ms 7000 does not divide --window-ms 60000"),
    (["wordcount", "--window", "1 min", "--window", "1 min/1 s"], "two of the windows are of"),
    (["wordcount", "--window", "1 min", "--slide-ms", "1000"], "leave these out"),
    (["debs-q1", "--workload-option", "per_event=true", "--shards", "2"], "leave --shards and"),
    (["wordcount", "--window", "1 week"], '"1 week" is no duration'),
    (["wordcount", "--lateness-ms", "-1"], "--lateness-ms must be 0 or more, not -1"),
    (["wordcount", "--rate", "0"], "--rate must be above 0, not 0"),
    (["wordcount", "--speedup", "-3"], "--speedup must be above 0, not -3"),
    (["wordcount", "--speedup", "nan"], "--speedup must be above 0, not nan"),
    (["wordcount", "--rate", "5", "--max"], "exclude each other"),
    (["wordcount", "--rate", "5", "--speedup", "5"], "exclude each other"),
    (["wordcount", "--emit", "chagned"], 'did you mean "changed"?'),
    (["wordcount", "--top", "0"], "--top must be 1 to 1,000,000, not 0"),
    (["wordcount", "--batch-records", "0"], "--batch-records must be 1 or more"),
    (["wordcount", "--encoding", "utf-9"], 'unknown encoding "utf-9"'),
    (["wordcount", "--input", "missing.txt"], "missing.txt: No such file or directory"),
    (["wordcount", "--kafka", "acks"], '--kafka "acks" is not key=value'),
    (["wordcount", "--kafka-config", "missing.properties"], "cannot read --kafka-config"),
    (["wordcount", "--resume", "nobody"], 'no run "nobody"'),
    (["--resume", "nobody", "--input", "a", "--max"], "leave out --input, --max"),
    (["wordcount", "--window-ms", str(2**60)], "--window-ms must be 1 to 1,000,000,000,000,000"),
    (["wordcount", "--encoding", "rot13"], 'unknown encoding "rot13"'),
    (["wordcount", "--encoding", "undefined"], 'unknown encoding "undefined"'),
    (["wordcount", "--input", "-"], "- can be read once only"),
    (["wordcount", "--input", "/dev/zero"], "/dev/zero can be read once only"),
    (["keyed-sum"], "keyed-sum ships no data: name a file with --input"),
    (["wordcount", "--master", "lokal[2]"], '"lokal[2]" is no Spark master: give one such as'),
    (["wordcount", "--master", "spark://127.0.0.1:1"], "127.0.0.1:1 (127.0.0.1:1: Connection ref"),
    (["wordcount", "--master", "spark://no.such.host.invalid:7077"], "no Spark master answers at"),
]


@pytest.mark.parametrize(("args", "sentence"), WRONG_OPTIONS, ids=lambda value: str(value)[:60])
def test_wrong_options_of_run(
    keyspread: Keyspread, tmp_path: Path, args: list[str], sentence: str
) -> None:
    runs = tmp_path / "runs"
    code, out, err = keyspread("run", *args, "--runs-dir", runs)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert out == ""
    assert not runs.exists()


def test_a_run_explains_its_windows_and_starts_nothing(
    keyspread: Keyspread, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    said = ["--window", "1 min", "--window", "5 min/1 min", "--explain", "--runs-dir", runs]
    code, out, _ = keyspread("run", "debs-q1", *said)
    assert code == 0
    assert "windows of 5 min, sliding by 1 min: the common panes as they are" in out
    assert "a record costs 1 combine; a slide of 1 min costs a key 0 combines and 4 changes" in out
    code, out, _ = keyspread("run", "debs-q1", *said, "--json")
    assert json.loads(out)["changes_per_slide"] == 4
    event = ["--workload-option", "per_event=true", "--explain", "--json", "--runs-dir", runs]
    _, out, _ = keyspread("run", "debs-q1", *event)
    assert json.loads(out) == {"per_event": True, "window_ms": 1_800_000}
    assert not runs.exists()


def test_json_errors_are_one_object(keyspread: Keyspread, tmp_path: Path) -> None:
    code, out, err = keyspread("run", "wordcuont", "--json", "--runs-dir", tmp_path / "runs")
    assert code == 2
    error = json.loads(out)["error"]
    assert error["exit_code"] == 2
    assert error["message"].startswith('unknown workload "wordcuont"')
    assert error["message"] in err


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        (b"", [], "is empty: give a file with at least one record"),
        (gzip.compress(b"many words " * 1000, mtime=0)[:-20], [], "is truncated: it ends after"),
        (b"\n \n--\n", [], "no record for wordcount in"),
        (b"caf\xe9\n", ["--encoding", "utf-8"], "say --encoding cp1252"),
        ("a\n".encode("utf-16"), ["--encoding", "utf-8"], "say --encoding utf-16,"),
        (b"word\n", ["--encoding", "utf-16"], "is not utf-16 (UTF-16 stream does not start"),
        (b"BZh9...", [], "is packed as bzip2: unpack it"),
    ],
)
def test_wrong_input_is_refused_before_anything_starts(
    keyspread: Keyspread, tmp_path: Path, content: bytes, options: list[str], sentence: str
) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    args = ["wordcount", "--input", path, *options, "--runs-dir", tmp_path / "runs"]
    code, _, err = keyspread("run", *args)
    assert code == 2
    assert sentence in err
    assert not (tmp_path / "runs").exists()


def test_input_of_another_workload_says_why(keyspread: Keyspread, words: Path) -> None:
    code, _, err = keyspread(
        "run", "debs-q1", "--input", words, "--runs-dir", words.parent / "runs"
    )
    assert code == 2
    assert "1 bad lines, the first because 1 columns instead of 17" in err


def test_a_folder_is_no_input(keyspread: Keyspread, tmp_path: Path) -> None:
    code, _, err = keyspread("run", "wordcount", "--input", tmp_path, "--runs-dir", tmp_path / "r")
    assert code == 2
    assert "is a folder" in err


def test_a_runs_folder_that_cannot_be_made(
    keyspread: Keyspread, tmp_path: Path, words: Path
) -> None:
    code, _, err = keyspread("run", "wordcount", "--input", words, "--runs-dir", words / "runs")
    assert code == 2
    assert "words.txt is a file, not a folder: name another folder with --runs-dir" in err


# Runs one command after the other in one process, as the imports take seconds: a line of JSON
# with environment and arguments comes in, one with exit code, stdout and stderr goes out.
COMMANDS = """
import contextlib, io, json, os, sys
from pipelines.cli import main
for line in sys.stdin:
    environment, args = json.loads(line)
    os.environ.update(environment)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(args)
        except SystemExit as left:
            code = left.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""
SYSTEM_JAVA_FOLDERS = ("/usr/lib/jvm", "/usr/java", "/opt")


@pytest.fixture(scope="module")
def other_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Keyspread]]:
    """A machine without Java, and with disks /ro and /small in a folder; and commands on it.

    It is a process with mounts of its own, which nobody else sees. Without root the kernel gives
    them in a user namespace.
    """
    folder = tmp_path_factory.mktemp("machine")
    mounts = [f"mount -t tmpfs tmpfs {path}" for path in SYSTEM_JAVA_FOLDERS if Path(path).is_dir()]
    for name, option in (("ro", "ro"), ("small", "size=1m")):
        (folder / name).mkdir()
        mounts.append(f"mount -t tmpfs -o {option} tmpfs {folder / name}")
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    shell = " && ".join([*mounts, 'exec "$@"'])
    with subprocess.Popen(
        ["unshare", "--mount", *as_root, "sh", "-c", shell, "sh", sys.executable, "-c", COMMANDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "KEYSPREAD_HOME": str(folder / "home")},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(*args: object, **environment: object) -> tuple[int, str, str]:
            said = {name: str(value) for name, value in environment.items()}
            print(json.dumps([said, [str(arg) for arg in args]]), file=process.stdin, flush=True)
            code, out, err = json.loads(process.stdout.readline())
            return code, out, err

        yield folder, run
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("option", "disk", "reason"),
    [
        ("--runs-dir", "ro", "Read-only file system"),
        ("--runs-dir", "small", "is full: "),
        ("--results", "ro", "Read-only file system"),
    ],
)
def test_read_only_and_full_disks(
    other_machine: tuple[Path, Keyspread],
    tmp_path: Path,
    words: Path,
    option: str,
    disk: str,
    reason: str,
) -> None:
    folder, keyspread = other_machine
    rest = [] if option == "--runs-dir" else ["--runs-dir", tmp_path / "runs"]
    args = ["--input", words, option, folder / disk / "sub", *rest]
    code, out, err = keyspread("run", "wordcount", *args)
    assert code == 2
    assert reason in err
    assert f"with {option}" in err
    assert out == ""


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "found"), [("", "found none"), ("11.0.2", "Java 11")])
def test_no_java_or_a_wrong_one(
    other_machine: tuple[Path, Keyspread], tmp_path: Path, words: Path, version: str, found: str
) -> None:
    _, keyspread = other_machine
    home = fake_java(tmp_path / "jdk", version) if version else tmp_path / "none"
    (tmp_path / "tools").mkdir()
    code, out, err = keyspread(
        *("run", "wordcount", "--input", words, "--runs-dir", tmp_path / "runs", "--json"),
        JAVA_HOME=home,
        PATH=tmp_path / "tools",
        HOME=tmp_path,
    )
    assert code == 2, err
    message = json.loads(out)["error"]["message"]
    assert found in message
    assert "apt-get install openjdk-17-jre-headless" in message


def test_the_input_is_not_overwritten_by_its_bad_lines(keyspread: Keyspread, words: Path) -> None:
    before = words.read_bytes()
    code, _, err = keyspread(
        "produce", "--topic", "t", "--input", words, "--dead-letters", words, "--bootstrap", "x:1"
    )
    assert code == 2
    assert "is the input: name another file" in err
    assert words.read_bytes() == before


def test_standard_input_that_is_closed() -> None:
    code = (
        "from pathlib import Path; from pipelines.input_files import open_input\n"
        "from partitioners.errors import InputError\n"
        "try: open_input('-')\n"
        "except InputError as error: print(error)"
    )
    shell = ["sh", "-c", 'exec "$0" -c "$1" <&-', sys.executable, code]
    ran = subprocess.run(shell, capture_output=True, text=True, check=True)
    assert ran.stdout == "standard input is closed: name a file with --input\n"


def test_a_broker_that_does_not_answer_is_named(
    keyspread: Keyspread,
    tmp_path: Path,
    words: Path,
    mute_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipelines.topics.ANSWER_SECONDS", 2.0)
    servers = f"127.0.0.1:{mute_port}"
    args = ["--input", words, "--runs-dir", tmp_path / "runs", "--bootstrap", servers]
    code, _, err = keyspread("run", "wordcount", *args)
    assert code == 2
    assert f"no answer from the Kafka servers {servers} within 2 s" in err
    assert not (tmp_path / "runs").exists()
    code, _, err = keyspread("produce", "--topic", "t", "--input", words, "--bootstrap", servers)
    assert code == 2
    assert servers in err


@pytest.fixture
def mute_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        yield holder.getsockname()[1]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is bound, so nobody else takes it, and answers nobody."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_kafka_settings_that_librdkafka_refuses(
    keyspread: Keyspread, tmp_path: Path, words: Path, closed_port: int
) -> None:
    args = ["--input", words, "--runs-dir", tmp_path / "runs", "--kafka", "acks.of=many"]
    code, _, err = keyspread("run", "wordcount", *args, "--bootstrap", f"127.0.0.1:{closed_port}")
    assert code == 2
    assert 'No such configuration property: "acks.of"' in err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# ours\n\nacks\n", 'line 3 of --kafka-config {file} is not key=value: "acks"'),
        ("acks=all\nacks = 1\n", "line 2 of --kafka-config {file} gives acks again"),
    ],
)
def test_a_settings_file_with_a_bad_line(
    keyspread: Keyspread, tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    code, _, err = keyspread("produce", "--topic", "t", "--kafka-config", file)
    assert code == 2
    assert sentence.format(file=file) in err


@pytest.mark.parametrize(
    "args",
    [
        ("run", "wordcount", "--input", "{words}", "--results", "{results}"),
        ("produce", "--topic", "t", "--input", "{words}"),
        ("bench", "producer"),
        ("advise", "--topic", "t"),
        ("dalton-reducer", "--topic", "t"),
    ],
    ids=lambda args: args[0],
)
def test_nobody_listens(
    keyspread: Keyspread, tmp_path: Path, words: Path, closed_port: int, args: tuple[str, ...]
) -> None:
    """A port that refuses is told at once, and only a command that starts brokers offers one."""
    results = tmp_path / "results"
    given = [arg.format(words=words, results=results) for arg in args]
    servers = f"127.0.0.1:{closed_port}"
    code, _, err = keyspread(*given, "--bootstrap", servers)
    assert code == 2
    assert f"nobody listens at the Kafka servers {servers}: check --bootstrap" in err
    assert ("have one started" in err) == (args[0] in ("run", "bench"))
    assert not results.exists()


def test_a_refused_input_leaves_no_results_folder(keyspread: Keyspread, tmp_path: Path) -> None:
    code, _, err = keyspread(
        "run", "wordcount", "--input", tmp_path / "none", "--results", tmp_path / "results"
    )
    assert code == 2
    assert "No such file" in err
    assert not (tmp_path / "results").exists()


def test_an_encoding_in_which_nothing_reads(keyspread: Keyspread, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes("café\n".encode() * 3)
    code, _, err = keyspread("run", "wordcount", "--input", text, "--encoding", "ascii")
    assert code == 2
    assert "--encoding" in err


def test_a_port_in_use(keyspread: Keyspread, tmp_path: Path, closed_port: int) -> None:
    code, _, err = keyspread("broker", "start", "--data", tmp_path, "--port", closed_port)
    assert code == 2
    assert f"port {closed_port} cannot be used" in err
    assert "name another port" in err


def test_no_broker_started(keyspread: Keyspread, empty_home: Path, words: Path) -> None:
    code, out, _ = keyspread("broker", "status", "--json")
    assert code == 1
    assert json.loads(out)["running"] is False
    assert keyspread("broker", "stop")[1] == "no broker was running\n"
    code, _, err = keyspread("produce", "--topic", "t", "--input", words)
    assert code == 2
    assert "no broker: name one with --bootstrap" in err


def test_the_program_says_what_it_is(keyspread: Keyspread) -> None:
    assert keyspread("--version")[:2] == (0, "keyspread 0.1.0\n")
    code, out, _ = keyspread("--help")
    assert code == 0
    for command in ("demo", "run", "produce", "bench", "report", "broker", "doctor"):
        assert command in out


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("rnu", '`keyspread` has no command "rnu": did you mean "run"?'),
        ("broker strat", '`keyspread broker` has no command "strat": did you mean "start"?'),
        ("--versoin", 'no option "--versoin": did you mean "--version"?'),
        ("run wordcount --partitionr pkg", 'no option "--partitionr": did you mean "--partition'),
        ("run wordcount --partitions many", "--partitions must be a whole number: see `keyspread"),
        ("run wordcount --speedup x", "--speedup must be a number"),
        ("run wordcount --partitions", "--partitions needs a value"),
        ("run wordcount words.txt", '`keyspread run` does not take "words.txt": leave it out'),
        ("run wordcount --results=", "--results must be given a value that is not empty"),
        ("bench memory --keys 0", "--keys must be 1 or more"),
        ("produce", "`keyspread produce` needs --topic"),
        ("report", "`keyspread report` needs RUN"),
    ],
)
def test_a_command_line_that_cannot_be_read(keyspread: Keyspread, args: str, sentence: str) -> None:
    code, out, err = keyspread(*args.split())
    assert code == 2
    assert out == ""
    assert err.startswith("keyspread: ")
    assert sentence in err
    assert len(err.splitlines()) == 1
    code, out, _ = keyspread(*args.split(), "--json")
    if args != "run wordcount --partitions":  # there `--json` is the value
        assert sentence in json.loads(out)["error"]["message"]


@pytest.mark.parametrize("group", ["", "broker", "bench", "data"])
def test_a_group_of_commands_alone_shows_its_help(keyspread: Keyspread, group: str) -> None:
    code, _, err = keyspread(*group.split())
    assert code == 2
    assert err.startswith("Usage: keyspread")


@pytest.mark.parametrize(
    "args",
    [
        ("windows", "--records", 0),
        ("windows", "--shards", 0),
        ("split", "--hot-fraction", 2),
        ("split", "--iterations", 0),
        ("producer", "--partitions", 0),
        ("producer", "--rounds", 0),
    ],
    ids=str,
)
def test_a_benchmark_out_of_range_starts_nothing(
    keyspread: Keyspread, args: tuple[object, ...]
) -> None:
    code, out, err = keyspread("bench", *args)
    assert code == 2
    assert out == ""
    assert f"keyspread: {args[1]} must be " in err


def test_help_does_not_wait_for_heavy_imports() -> None:
    code = (
        "import sys; from pipelines.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'pyspark', 'duckdb', 'polars', 'confluent_kafka'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == "[]\n"


def test_doctor_says_what_it_found(keyspread: Keyspread, tmp_path: Path) -> None:
    code, out, _ = keyspread("doctor", "--json", "--runs-dir", tmp_path)
    findings = {finding["name"]: finding for finding in json.loads(out)["findings"]}
    assert code == (0 if all(finding["ok"] for finding in findings.values()) else 1)
    assert findings["Python"]["ok"]
    assert {"Java", "memory", "disk for runs", "Kafka jars", "port 9092"} <= findings.keys()


def test_doctor_names_the_mend(
    keyspread: Keyspread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    blocked = tmp_path / "file"
    blocked.touch()
    code, out, _ = keyspread("doctor", "--runs-dir", blocked / "runs")
    assert code == 1
    assert "!! SPARK_HOME" in out
    assert "-> unset SPARK_HOME" in out
    assert "!! disk for runs" in out


def test_a_stop_while_the_command_is_imported_leaves_no_traceback() -> None:
    program = (
        "import os, signal, sys\n"
        "sys.argv = ['keyspread']\n"
        "import pipelines.early_stop\n"
        "os.kill(os.getpid(), signal.SIGINT)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == -signal.SIGINT
    assert ran.stderr == ""


@pytest.mark.parametrize(
    "args",
    [
        ("bench", "partitioners", "pkg,nope"),
        ("bench", "memory", "nope,pkg"),
        ("bench", "aggregates", "sum,nope"),
        ("bench", "workloads", "nope,wordcount"),
        ("simulate", "--partitioners", "pkg,nope"),
        ("verify", "--partitioners", "pkg,nope"),
        ("verify", "--workloads", "wordcount", "--workloads", "gcm-q1,nope"),
        ("grid", "plan", "wordcount", "--partitioner", "pkg,nope"),
    ],
    ids=" ".join,
)
def test_lists_of_names_are_read_alike(keyspread: Keyspread, args: tuple[str, ...]) -> None:
    """By commas, so that it is one name that is unknown."""
    code, _, err = keyspread(*args)
    assert code == 2
    assert '"nope"' in err


def test_windows_are_explained_without_an_input(keyspread: Keyspread) -> None:
    """Of a workload that ships no data, too: nothing is read."""
    code, out, err = keyspread("run", "keyed-sum", "--explain")
    assert (code, err) == (0, "")
    assert "windows of 30 min, sliding by 1 min" in out


def test_a_stop_before_a_command_begins_is_told_like_any_other() -> None:
    """The command's own imports take a while: a signal may come in the midst of them."""
    program = (
        "import os, signal, pipelines.cli as cli\n"
        "cli.app = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)\n"
        "cli.main()"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (143, "keyspread: stopped by SIGTERM\n")


@pytest.mark.parametrize("mine", [True, False], ids=["new", "there before"])
def test_a_run_stopped_before_it_began_leaves_nothing(
    tmp_path: Path, words: Path, mine: bool
) -> None:
    runs, results = tmp_path / "runs", tmp_path / "results"
    if not mine:
        results.mkdir()
    args = ["run", "wordcount", "--input", words, "--runs-dir", runs, "--results", results]
    program = (
        "import os, signal, sys, pipelines.benchmark.prepare as prepare\n"
        "from pipelines.cli import main\n"
        "make = prepare.make_run_folder\n"
        "def make_and_stop(*args):\n"
        "    folder = make(*args)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return folder\n"
        "prepare.make_run_folder = make_and_stop\n"
        "main(sys.argv[1:])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *map(str, args)], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (143, "keyspread: stopped by SIGTERM\n")
    assert list(runs.iterdir()) == []
    assert results.exists() != mine


def test_paths_with_dots_are_resolved(keyspread: Keyspread, tmp_path: Path, words: Path) -> None:
    up = tmp_path / "a" / ".." / "file"
    (tmp_path / "file").touch()
    for option in ("--results", "--runs-dir"):
        code, _, err = keyspread("run", "wordcount", "--input", words, option, up)
        assert code == 2
        sentence = f"{tmp_path}/file is a file, not a folder: name another folder with {option}"
        assert sentence in err
    code, _, err = keyspread("run", "wordcount", "--input", tmp_path / "a" / ".." / "none")
    assert code == 2
    assert f"cannot read the input {tmp_path}/none" in err
