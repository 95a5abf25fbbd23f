"""What stands in the folder of an embedded broker: settings, log, topics, and who runs it."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import psutil

from partitioners.errors import RunError
from pipelines.child_environment import child_environment
from pipelines.java import Java

LOG_TAIL_LINES = 15
# Room for a value of 5 MB with a key of 100 kB, and for batches above either.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024

# One node with all roles. Everything that is replicated, preallocated or waited for on a
# cluster is cut down to what one broker on a laptop needs.
_SETTINGS = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
log.dirs={topics_dir}
auto.create.topics.enable=false
delete.topic.enable=true
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
message.max.bytes={max_message_bytes}
replica.fetch.max.bytes={max_message_bytes}
# A replay carries event times of years ago or ahead: neither may delete or refuse a record.
log.retention.ms=-1
log.message.timestamp.after.max.ms=9223372036854775807
log.preallocate=false
log.segment.bytes=268435456
log.index.size.max.bytes=1048576
log.cleaner.dedupe.buffer.size=16777216
# A deleted topic gives its disk space back soon.
file.delete.delay.ms=1000
num.network.threads=2
num.io.threads=4
"""

_LOGGING = """\
status=error
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c{{1}})%n
rootLogger.level=info
rootLogger.appenderRef.out.ref=OUT
"""


@dataclass(frozen=True)
class BrokerRecord:
    """Which process serves a folder. The start time tells it from a later one with its pid."""

    pid: int
    start_time_s: float
    bootstrap: str

    @staticmethod
    def path(data_dir: Path) -> Path:
        """Say where the record of a folder is."""
        return data_dir / "broker.json"

    @classmethod
    def read(cls, data_dir: Path) -> Self | None:
        """Read the record of a folder; None if there is none or it is damaged."""
        try:
            return cls(**json.loads(cls.path(data_dir).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def is_alive(self, data_dir: Path) -> bool:
        """Whether the process is alive and is the broker of that folder, not another program."""
        try:
            process = psutil.Process(self.pid)
            same_start = abs(process.create_time() - self.start_time_s) < 1.0
            command = process.cmdline()
            alive = process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False
        return alive and same_start and str(settings_path(data_dir)) in command


def read_record(data_dir: Path) -> BrokerRecord | None:
    """Give the live broker of a folder; a record left by a dead one is removed."""
    record = BrokerRecord.read(data_dir)
    if record is not None and record.is_alive(data_dir):
        return record
    with contextlib.suppress(OSError):
        BrokerRecord.path(data_dir).unlink(missing_ok=True)
    return None


def write_record(data_dir: Path, process: psutil.Process, bootstrap: str) -> None:
    """Note which process serves a folder."""
    record = BrokerRecord(process.pid, process.create_time(), bootstrap)
    path = BrokerRecord.path(data_dir)
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(asdict(record)), encoding="utf-8")
    scratch.replace(path)


def settings_path(data_dir: Path) -> Path:
    """Say where the settings of a folder's broker are."""
    return data_dir / "server.properties"


def log_path(data_dir: Path) -> Path:
    """Say where the log of a folder's broker is."""
    return data_dir / "broker.log"


def write_settings(data_dir: Path, *, port: int, controller_port: int) -> None:
    """Write the broker's settings for these ports."""
    data_dir.mkdir(parents=True, exist_ok=True)
    settings = _SETTINGS.format(
        port=port,
        controller_port=controller_port,
        topics_dir=str(data_dir / "topics").replace("\\", "\\\\"),
        max_message_bytes=MAX_MESSAGE_BYTES,
    )
    settings_path(data_dir).write_text(settings, encoding="utf-8")
    (data_dir / "log4j2.properties").write_text(_LOGGING.format(), encoding="utf-8")
    if (log := log_path(data_dir)).exists():
        log.replace(log.with_suffix(".log.1"))


def format_storage(data_dir: Path, java: Java, jars: list[Path]) -> None:
    """Prepare an empty folder for its broker; one that has been prepared stays as it is."""
    if (data_dir / "topics" / "meta.properties").exists():
        return
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    if cluster_id.startswith("-"):  # the tool would take it for an option
        cluster_id = "k" + cluster_id[1:]
    command = java_command(data_dir, java, jars, heap_mb=256, quick_start=True)
    command += ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", cluster_id]
    ran = subprocess.run(
        [*command, "-c", str(settings_path(data_dir))],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=120,
        env=child_environment(),
    )
    if ran.returncode != 0:
        output = ran.stdout + ran.stderr
        if "No space left on device" in output:
            raise OSError(28, "No space left on device")
        lines = [line for line in output.splitlines() if line.strip()]
        raise RunError(
            f"cannot prepare {data_dir} for a broker: name an empty folder; Kafka says: "
            + " / ".join(lines[-3:])
        )


def java_command(
    data_dir: Path, java: Java, jars: list[Path], *, heap_mb: int, quick_start: bool
) -> list[str]:
    """Give the part of a command line that comes before the Java class.

    Args:
        data_dir: The broker's folder.
        java: What to run it on.
        jars: Kafka's jars.
        heap_mb: Java heap.
        quick_start: Leave the second compiler out, which takes more time than it gives to a
            program that runs for seconds.
    """
    return [
        str(java.executable),
        *(["-XX:TieredStopAtLevel=1"] if quick_start else []),
        f"-Xmx{heap_mb}m",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={data_dir / 'log4j2.properties'}",
        "-cp",
        ":".join(map(str, jars)),
    ]


def log_tail(data_dir: Path) -> str:
    """Give the last lines of the broker's log."""
    try:
        text = log_path(data_dir).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])
