"""Starting, watching and stopping the process of an embedded broker."""

from __future__ import annotations

import contextlib
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from partitioners.errors import InputError
from pipelines.broker_files import java_command, log_path, settings_path
from pipelines.child_environment import child_environment
from pipelines.java import Java

# Becomes the broker by exec, having asked the kernel for SIGTERM when its parent dies (1 is
# PR_SET_PDEATHSIG): not even kill -9 of the parent leaves a broker behind.
_DIE_WITH_PARENT = (
    "import ctypes,os,sys\n"
    "ctypes.CDLL(None).prctl(1, 15)\n"
    "if os.getppid() != int(sys.argv[1]): sys.exit(1)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


class NotReadyError(Exception):
    """A broker that was started ended or gave no answer."""


def choose_port(asked: int | None, *taken: int) -> int:
    """Give a free port on 127.0.0.1, or the one asked for.

    Args:
        asked: The port wanted; None takes any that is free.
        taken: Ports not to give.

    Raises:
        InputError: The port asked for is in use or not allowed.
    """
    while True:
        with socket.socket() as probe:
            # As the broker binds: a port whose last connections linger in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", asked or 0))
            except OSError as error:
                raise InputError(
                    f"port {asked} cannot be used ({error.strerror}): stop what listens there, or "
                    "name another port (0 takes a free one)"
                ) from None
            port = int(probe.getsockname()[1])
        if port not in taken:
            return port


def launch(
    data_dir: Path,
    java: Java,
    jars: list[Path],
    *,
    heap_mb: int,
    detached: bool,
    quick_start: bool,
) -> psutil.Process:
    """Start the broker's process, with its output in its log.

    Args:
        data_dir: The broker's folder, with settings and prepared storage.
        java: What to run it on.
        jars: Kafka's jars.
        heap_mb: Java heap.
        detached: Whether it outlives this process.
        quick_start: Whether it is for little data.
    """
    command = java_command(data_dir, java, jars, heap_mb=heap_mb, quick_start=quick_start)
    command += ["kafka.Kafka", str(settings_path(data_dir))]
    if not detached and sys.platform == "linux":
        pid = str(psutil.Process().pid)
        command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, pid, *command]
    if detached:
        return _launch_detached(command, data_dir)
    started: queue.SimpleQueue[psutil.Process | BaseException] = queue.SimpleQueue()

    def start_and_wait() -> None:
        try:
            with log_path(data_dir).open("ab") as log:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C on the terminal is for us: we stop the broker last, in order.
                    start_new_session=True,
                    cwd=data_dir,
                    env=child_environment(),
                )
            started.put(psutil.Process(process.pid))
        except BaseException as error:
            started.put(error)
            return
        process.wait()

    # "Parent" is to the kernel the *thread* that forked: it has to live as long as we do, so
    # it must not be the caller's. Waiting here also leaves no zombie.
    threading.Thread(target=start_and_wait, name="keyspread-broker", daemon=True).start()
    result = started.get()
    if isinstance(result, BaseException):
        raise result
    return result


def _launch_detached(command: list[str], data_dir: Path) -> psutil.Process:
    """Start a process that is nobody's child, so that nobody has to wait for it."""
    launcher = (
        "import subprocess,sys\n"
        "log = open(sys.argv[1], 'ab')\n"
        "print(subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=log,"
        " stderr=subprocess.STDOUT, start_new_session=True).pid)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", launcher, str(log_path(data_dir)), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        cwd=data_dir,
        env=child_environment(),
    )
    return psutil.Process(int(ran.stdout))


def wait_until_ready(process: psutil.Process, bootstrap: str, timeout_s: float) -> None:
    """Wait for an answer to a metadata request.

    Args:
        process: The broker.
        bootstrap: Its address.
        timeout_s: How long to wait.

    Raises:
        NotReadyError: The broker ended, or did not answer in time.
    """
    deadline = time.monotonic() + timeout_s
    host, _, port = bootstrap.rpartition(":")
    while not _ended_within(process, 0.1):
        if time.monotonic() > deadline:
            raise NotReadyError(f"the broker gave no answer within {timeout_s:g} s")
        # A client on a closed port backs off longer and longer: knock first.
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), timeout=1).close()
            if _answers(bootstrap, min(10.0, max(0.5, deadline - time.monotonic()))):
                return
    raise NotReadyError("the broker ended while it started")


def _answers(bootstrap: str, timeout_s: float) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        return bool(client.list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def _ended_within(process: psutil.Process, timeout_s: float) -> bool:
    try:
        process.wait(timeout_s)
    except psutil.TimeoutExpired:
        return False
    return True


def stop_process(process: psutil.Process, timeout_s: float) -> None:
    """End a process: SIGTERM, wait, SIGKILL, wait.

    Args:
        process: What to end; psutil refuses to signal a later process with the same pid.
        timeout_s: How long it may take after SIGTERM; 0 kills at once.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        if timeout_s > 0:
            process.terminate()
            if _ended_within(process, timeout_s):
                return
        process.kill()
        _ended_within(process, 30)


def why_it_failed(what: str, tail: str, data_dir: Path) -> str:
    """Put a broker's failure into a sentence with its mend, and the end of its log below.

    Args:
        what: What was seen from outside.
        tail: The last lines of the log.
        data_dir: The broker's folder.
    """
    if "No space left on device" in tail:
        mend = f"the disk that holds {data_dir} is full; free some space"
    elif "Address already in use" in tail:
        mend = "its port was taken meanwhile; name another port (0 takes a free one)"
    elif "OutOfMemoryError" in tail or "Could not reserve enough space" in tail:
        mend = "there is too little memory; close other programs or give a smaller heap_mb"
    elif "Permission denied" in tail:
        mend = f"part of {data_dir} belongs to somebody else; name another folder"
    else:
        said = re.search(r"^[\w.]*(?:Exception|Error): ([^\n]*)", tail, re.MULTILINE)
        mend = f"Kafka says: {said.group(1)}; " if said else ""
        mend += f"see {log_path(data_dir)}; a new folder or a longer time-out may help"
    return f"{what}: {mend}\n{tail}"
