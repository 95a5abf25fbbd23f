"""What splitting a hot key buys where the combiner's work per record is real.

A topic of two partitions, one key with 60 % of the records. The combiner verifies the PBKDF2-HMAC
tag of every record. Under `key_hash` the partition of the hot key has 80 % of that work and one
core does it; under `pkg` and `w_choices` two cores share it.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from partitioners import create
from partitioners.errors import RunError
from partitioners.kafka import ensure_topic
from partitioners.streams import Stream, one_hot
from pipelines import engine
from pipelines.aggregates import Aggregates
from pipelines.benchmark.sender import TopicSender
from pipelines.benchmark.site import Say, Site, open_site
from pipelines.panes import Windows
from pipelines.punctuation import END_MS, encode_watermark
from pipelines.workloads.base import Decoded, Parser, Workload
from pipelines.workloads.fields import flat_bytes

TIME_BYTES = 8
TEXT_BYTES = 8
TAG_BYTES = 16
SECRET = b"keyspread"
# Signing costs as much as verifying, so the records share a few signed texts.
NUM_TEXTS = 64
NUM_PARTITIONS = 2
WARM_UP_RECORDS = 500


def tag(text: bytes, iterations: int) -> bytes:
    """The PBKDF2-HMAC-SHA256 tag of a text."""
    return hashlib.pbkdf2_hmac("sha256", text, SECRET, iterations, TAG_BYTES)


class VerifiedCount(Workload):
    """Counts records whose tag is right.

    Args:
        iterations: Of PBKDF2; 1,000 take about half a millisecond.
    """

    name: ClassVar[str] = "verified-count"
    default_window_ms = 10_000
    default_slide_ms = 10_000
    key_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("key", pa.binary()),)
    value_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("count", pa.int64()),)

    def __init__(self, iterations: int) -> None:
        self.aggregates = Aggregates()
        self.iterations = iterations

    def parser(self) -> Parser:
        """It has no input of its own."""
        raise RunError("verified-count is a benchmark's workload: it makes its own records")

    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:  # noqa: ARG002
        """Verify every record."""
        flat, offsets = flat_bytes(values)
        size = TIME_BYTES + TEXT_BYTES + TAG_BYTES
        first = int(offsets[0]) if len(values) else 0
        rows = flat[first : first + size * len(values)].reshape(len(values), size)
        times = np.ascontiguousarray(rows[:, :TIME_BYTES]).view(np.int64).ravel()
        good = np.array(
            [
                tag(row[TIME_BYTES : TIME_BYTES + TEXT_BYTES].tobytes(), self.iterations)
                == row[TIME_BYTES + TEXT_BYTES :].tobytes()
                for row in rows
            ],
            dtype=bool,
        )
        return Decoded(times, good=good)

    def oracle_records(self, connection: Any, lines: str) -> str:  # noqa: ARG002
        """It has no input to ask an oracle about."""
        raise RunError("verified-count is a benchmark's workload: it has no oracle")

    def oracle_values(self) -> dict[str, str]:
        """See `oracle_records`."""
        return {"count": "count(*)"}

    def values(self, timestamps_ms: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
        """Record values for these times."""
        texts = [b"text%04d" % i for i in range(NUM_TEXTS)]
        signed = [text + tag(text, self.iterations) for text in texts]
        return pa.array(
            [
                time_ms.to_bytes(TIME_BYTES, "little", signed=True) + signed[i % NUM_TEXTS]
                for i, time_ms in enumerate(timestamps_ms.tolist())
            ],
            type=pa.binary(),
        )


def run_split_bench(
    *,
    num_records: int = 24_000,
    num_keys: int = 1_000,
    hot_fraction: float = 0.6,
    iterations: int = 1_000,
    num_batches: int = 3,
    partitioners: tuple[str, ...] = ("key_hash", "pkg", "w_choices"),
    master: str = "local[2]",
    bootstrap: str | None = None,
    work_dir: Path | None = None,
    say: Say = print,
) -> dict[str, Any]:
    """Measure how long each partitioner's topic takes the same query.

    Args:
        num_records: Records on each topic.
        num_keys: Distinct keys, the hot one included.
        hot_fraction: Share of the hot key.
        iterations: PBKDF2 iterations per record.
        num_batches: Micro-batches the topic is read in.
        partitioners: The first is what the others are compared with.
        master: Spark master; it needs two cores for the point of it.
        bootstrap: Kafka servers; None: an embedded broker.
        work_dir: For topics, checkpoints and results; a temporary folder if None.
        say: Told what is going on.

    Returns:
        Per partitioner seconds, records and combine seconds per partition; and the speed-ups.
    """
    folder = Path(tempfile.mkdtemp(prefix="keyspread-bench-", dir=work_dir))
    workload = VerifiedCount(iterations)
    results: dict[str, Any] = {}
    try:
        with open_site(
            bootstrap=bootstrap,
            kafka={},
            broker_dir=folder / "broker",
            master=master,
            spark_dir=folder / "spark",
            say=say,
        ) as site:
            warm = one_hot(WARM_UP_RECORDS, num_keys, hot_fraction)
            _measure(site, folder, workload, partitioners[0], warm, 1)
            stream = one_hot(num_records, num_keys, hot_fraction)
            for name in partitioners:
                say(f"{name}: {num_records:,} records of {iterations:,} iterations")
                results[name] = _measure(site, folder, workload, name, stream, num_batches)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    base = results[partitioners[0]]["seconds"]
    return {
        "records": num_records,
        "hot_fraction": hot_fraction,
        "pbkdf2_iterations": iterations,
        "runs": results,
        "speed_up": {name: base / results[name]["seconds"] for name in partitioners[1:]},
    }


def _measure(
    site: Site, folder: Path, workload: VerifiedCount, name: str, stream: Stream, num_batches: int
) -> dict[str, Any]:
    """Fill a topic through a partitioner, then time a query over it."""
    scratch = Path(tempfile.mkdtemp(dir=folder))
    topic = f"split-{name.replace('_', '-')}-{time.time_ns()}"
    ensure_topic(site.settings, topic, NUM_PARTITIONS)
    targets = np.empty(len(stream.ids), dtype=np.int32)
    create(name, NUM_PARTITIONS).route(stream.key_hashes, stream.timestamps_ms, targets)
    sender = TopicSender(site.settings, topic, NUM_PARTITIONS)
    sender.send(stream.keys.cast(pa.binary()), workload.values(stream.timestamps_ms), targets)
    ends = pa.array([encode_watermark(END_MS)] * NUM_PARTITIONS, type=pa.binary())
    nobody = pa.nulls(NUM_PARTITIONS, type=pa.binary())
    sender.send(nobody, ends, np.arange(NUM_PARTITIONS, dtype=np.int32))
    sender.finish(stopped=False)
    started = time.perf_counter()
    query = engine.start(
        site.spark,
        workload,
        bootstrap=site.bootstrap,
        topic=topic,
        num_partitions=NUM_PARTITIONS,
        num_shards=2,
        windows=Windows(workload.default_window_ms, workload.default_slide_ms),
        results_dir=scratch / "results",
        checkpoint_dir=scratch / "checkpoint",
        batch_records=-(-(len(stream.ids) + NUM_PARTITIONS) // num_batches),
    )
    query.await_end()
    seconds = time.perf_counter() - started
    summary = query.summary()
    if summary.records != len(stream.ids) or summary.dead:
        raise RunError(f"{summary.records:,} records counted, {summary.dead:,} not verified")
    return {
        "seconds": seconds,
        "records_per_partition": np.bincount(targets, minlength=NUM_PARTITIONS).tolist(),
        "combine_seconds": [summary.combine_seconds.get(p, 0.0) for p in range(NUM_PARTITIONS)],
        "batch_seconds": summary.batch_seconds,
    }
