"""Print balance and fragmentation of every partitioner on many streams, as Markdown.

Cells: imbalance of the whole stream / mean imbalance of its windows / mean fragmentation of its
windows. Windows are 60,000 records long; a record's event time is its number in ms. With several
sources record i is of source i mod S, each a partitioner of its own; none talks to another.

    python scripts/balance_table.py --partitions 16 --sources 1
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partitioners import PARTITIONERS, create
from partitioners.metrics import imbalance
from partitioners.streams import Stream, of_ids, of_keys, one_hot, uniform, zipf

WINDOW_MS = 60_000
SLIDE_MS = 1_000
DATA = Path(__file__).parent.parent / "pipelines" / "data"


def drift(exponent: float) -> Stream:
    """Change which keys are hot every 100,000 records."""
    parts = [zipf(100_000, exponent=exponent, seed=seed).ids for seed in range(10)]
    return of_ids(np.concatenate(parts))


def words() -> Stream:
    """Take the words of the shipped novel."""
    text = gzip.decompress((DATA / "anna_karenina.txt.gz").read_bytes()).decode("cp1252")
    return of_keys(pa.array(re.findall(r"[a-z']+", text.lower())))


def routes() -> Stream:
    """Take the routes of the shipped hour of taxi trips, cells of 500 m, 30 times over."""
    found = []
    for line in gzip.decompress((DATA / "debs2015_first_hour.csv.gz").read_bytes()).split(b"\n"):
        fields = line.split(b",")
        if len(fields) == 17 and float(fields[6]) != 0.0:
            cells = [
                int((float(field) - low) / step)
                for field, low, step in zip(
                    fields[6:10],
                    (-74.9, 40.9, -74.9, 40.9),
                    (0.005986, -0.0045, 0.005986, -0.0045),
                    strict=True,
                )
            ]
            found.append(str(cells))
    return of_keys(pa.array(found * 30))


STREAMS: dict[str, Callable[[], Stream]] = {
    "zipf 0.5": lambda: zipf(exponent=0.5),
    "zipf 0.8": lambda: zipf(exponent=0.8),
    "zipf 1.0": lambda: zipf(exponent=1.0),
    "zipf 1.2": lambda: zipf(exponent=1.2),
    "zipf 1.4": zipf,
    "zipf 1.7": lambda: zipf(exponent=1.7),
    "zipf 2.0": lambda: zipf(exponent=2.0),
    "uniform": uniform,
    "one key 60 %": one_hot,
    "drift 1.0": lambda: drift(1.0),
    "drift 1.4": lambda: drift(1.4),
    "150,000 customers": lambda: uniform(num_keys=150_000),
    "words": words,
    "routes": routes,
}


def partitions_of(
    name: str, num_partitions: int, num_sources: int, stream: Stream
) -> npt.NDArray[np.int32]:
    """Route a stream by several sources.

    Args:
        name: Of the partitioner.
        num_partitions: Number of partitions.
        num_sources: Number of sources.
        stream: The stream.

    Returns:
        ``int32[n]``.
    """
    options = {}
    fields = PARTITIONERS[name].config_type.__dataclass_fields__
    if PARTITIONERS[name].traits.uses_time and "window_ms" in fields:
        options["window_ms"] = WINDOW_MS
        if "slide_ms" in fields:
            options["slide_ms"] = SLIDE_MS
    out = np.empty(len(stream.ids), np.int32)
    for source in range(num_sources):
        partitioner = create(name, num_partitions, **options)
        rows = np.arange(source, len(stream.ids), num_sources)
        if partitioner.traits.needs_batch and hasattr(partitioner, "fit"):
            partitioner.fit(stream.key_hashes[rows])
        out[rows] = partitioner.partition_batch(
            stream.keys.take(pa.array(rows)), stream.timestamps_ms[rows]
        )
    return out


def cell(stream: Stream, partitions: npt.NDArray[np.int32], num_partitions: int) -> str:
    """Measure one cell of the table.

    Args:
        stream: The stream.
        partitions: Where its records went.
        num_partitions: Number of partitions.

    Returns:
        Imbalance, mean imbalance per window, mean fragmentation per window.
    """
    pairs = stream.ids * num_partitions + partitions
    balances, fragments = [], []
    for start in range(0, len(pairs), WINDOW_MS):
        rows = slice(start, start + WINDOW_MS)
        if len(pairs[rows]) < WINDOW_MS // 2:
            continue
        balances.append(imbalance(np.bincount(partitions[rows], minlength=num_partitions)))
        fragments.append(len(np.unique(pairs[rows])) / len(np.unique(stream.ids[rows])))
    total = imbalance(np.bincount(partitions, minlength=num_partitions))
    return f"{total:.3f} / {np.mean(balances):.3f} / {np.mean(fragments):.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--sources", type=int, default=1)
    parser.add_argument("--partitioners", nargs="*", default=list(PARTITIONERS))
    parser.add_argument("--streams", nargs="*", default=list(STREAMS))
    arguments = parser.parse_args()
    print("| stream |", " | ".join(arguments.partitioners), "|")
    print("|---|" + "---|" * len(arguments.partitioners))
    for stream_name in arguments.streams:
        stream = STREAMS[stream_name]()
        cells = [
            cell(
                stream,
                partitions_of(name, arguments.partitions, arguments.sources, stream),
                arguments.partitions,
            )
            for name in arguments.partitioners
        ]
        print("|", stream_name, "|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
