"""The embedded broker as its users meet it: starting, stopping, dying, and bad circumstances."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from partitioners.errors import InputError, RunError
from partitioners.kafka import ensure_topic
from pipelines.broker import (
    EmbeddedBroker,
    broker_status,
    start_detached,
    stop_detached,
)
from pipelines.broker_files import BrokerRecord, read_record
from tests.integration.reading import read_topic
from tests.integration.sending import ordered_producer

pytestmark = pytest.mark.broker


def wait_for_end(pid: int, timeout_s: float = 60) -> None:
    try:
        psutil.Process(pid).wait(timeout_s)
    except psutil.NoSuchProcess:
        return


def test_a_restart_keeps_data_and_port(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        config = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        assert ensure_topic(config, "kept", 2)
        producer = ordered_producer(config)
        producer.produce("kept", b"value", b"key")
        assert producer.flush(30) == 0
        before = broker.bootstrap
        broker.stop()
        assert not broker.running
        assert broker.pid is None
        broker.start()
        assert broker.bootstrap == before
        assert not ensure_topic(config, "kept", 2)
        assert [record.value for record in read_topic(config, "kept")] == [b"value"]
    broker.stop()  # twice is once


def test_it_runs_on_the_port_asked_and_refuses_one_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} cannot be used .*name another port"):
            EmbeddedBroker(tmp_path, port).start()
    with EmbeddedBroker(tmp_path, port) as broker:
        assert broker.bootstrap == f"127.0.0.1:{port}"


def test_a_folder_serves_one_broker(broker: EmbeddedBroker) -> None:
    with pytest.raises(InputError, match=f"a broker \\(pid {broker.pid}, .* already runs on"):
        EmbeddedBroker(broker.data_dir).start()
    assert broker.start() is broker  # to start it again itself is no error


@pytest.mark.parametrize("from_thread", [False, True])
def test_it_ends_when_its_parent_is_killed(tmp_path: Path, *, from_thread: bool) -> None:
    # Started from a thread that ends at once, it must live on; the kernel's notion of a parent
    # is the thread.
    start = (
        "t = threading.Thread(target=broker.start); t.start(); t.join()"
        if from_thread
        else "broker.start()"
    )
    program = (
        "import sys, threading\n"
        "from pipelines.broker import EmbeddedBroker\n"
        f"broker = EmbeddedBroker(sys.argv[1])\n{start}\n"
        "print(broker.pid, flush=True)\nsys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    assert read_record(tmp_path) is not None
    parent.kill()
    parent.communicate()
    wait_for_end(pid)
    assert read_record(tmp_path) is None
    with EmbeddedBroker(tmp_path) as again:  # and its folder is as good as before
        assert again.running


def test_a_forked_child_does_not_stop_it(broker: EmbeddedBroker) -> None:
    child = os.fork()
    if child == 0:
        broker.stop()
        os._exit(0)
    os.waitpid(child, 0)
    assert broker.running


def test_a_killed_broker_starts_again(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path).start()
    try:
        assert broker.pid is not None
        pid = broker.pid
        os.kill(pid, signal.SIGKILL)
        wait_for_end(pid)
        assert not broker.running
        broker.start()
        assert broker.running
        assert broker.pid != pid
    finally:
        broker.stop()


def test_detached_it_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pipelines.broker import start_detached\n"
        "print(start_detached(sys.argv[1], None).pid)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    pid = int(ran.stdout)
    try:
        status = broker_status(tmp_path)
        assert status.running
        assert status.pid == pid
        assert status.uptime_s is not None
        assert status.uptime_s > 0
        assert ensure_topic({"bootstrap.servers": status.bootstrap}, "t", 1)
        with pytest.raises(InputError, match="already runs on"):
            start_detached(tmp_path)
    finally:
        assert stop_detached(tmp_path)
    assert not psutil.pid_exists(pid)
    assert not broker_status(tmp_path).running
    assert not stop_detached(tmp_path)


@pytest.mark.parametrize("left", ["dead", "reused pid", "garbage"])
def test_a_stale_pid_file_heals(tmp_path: Path, left: str) -> None:
    path = BrokerRecord.path(tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    pid = ended.pid if left == "dead" else os.getpid()
    record = {"pid": pid, "start_time_s": psutil.Process().create_time(), "bootstrap": "b:1"}
    path.write_text("{" if left == "garbage" else json.dumps(record))
    assert not broker_status(tmp_path).running
    assert not path.exists()
    assert not stop_detached(tmp_path)  # above all it signals nobody


def test_a_start_that_takes_too_long_shows_the_log(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, start_timeout_s=0.01)
    with pytest.raises(RunError, match=r"no answer within 0\.01 s: .*time-out") as caught:
        broker.start()
    assert str(tmp_path / "broker.log") in str(caught.value)
    assert not broker.running


def test_a_damaged_folder_says_why(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path):
        pass
    (tmp_path / "topics" / "meta.properties").write_text("version=1\nnode.id=77\ncluster.id=x\n")
    with pytest.raises(
        RunError, match=r"ended while it started: Kafka says: .*node id 77"
    ) as caught:
        EmbeddedBroker(tmp_path).start()
    assert caught.value.exit_code == 1


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not a folder: name another folder"):
        EmbeddedBroker(tmp_path / "file").start()
    with pytest.raises(InputError, match="name another folder"):
        EmbeddedBroker(Path("/proc/keyspread")).start()


@pytest.mark.parametrize(("port", "heap_mb"), [(70_000, 768), (-1, 768), (None, 10)])
def test_numbers_out_of_range(tmp_path: Path, port: int | None, heap_mb: int) -> None:
    with pytest.raises(InputError, match="must be"):
        EmbeddedBroker(tmp_path, port, heap_mb)


def test_an_unstarted_broker_has_no_address(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has not been started"):
        _ = EmbeddedBroker(tmp_path).bootstrap


def test_two_threads_start_one_broker(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    threads = [threading.Thread(target=broker.start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert broker.running
    finally:
        broker.stop()
