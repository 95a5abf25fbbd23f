"""What `keyspread advise` recommends on given streams, and how it reads keys."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from partitioners import PARTITIONERS, create
from partitioners.errors import InputError
from partitioners.metrics import fragmentation, imbalance, partition_counts
from partitioners.streams import Stream, one_hot, uniform, zipf
from pipelines.advise.compare import PRESENT, Figures, Plan, compare, partials_per_record, present
from pipelines.advise.recommend import (
    NOT_ADVISED,
    code_to_paste,
    holistic_rule,
    recommend,
)
from pipelines.advise.replay_order import replay_order
from pipelines.advise.sample import Limits, Sample, sample_keys, sample_lines, stream_of
from pipelines.line_producer import LineSource

NAMES = ["key_hash", "shuffle", "pkg", "cam", "hot_fill"]
EIGHT = Plan(num_partitions=8, window_ms=10_000)


def advised(stream: Stream, plan: Plan = EIGHT, **about: object) -> tuple[str, str]:
    keeps_order = bool(about.pop("keeps_order", False))
    sample = Sample(source="test", stream=stream, **about)  # type: ignore[arg-type]
    figures = compare(stream, sample.num_null, plan, NAMES)
    found = recommend(figures, sample, plan, keeps_order=keeps_order)
    return found.partitioner, found.reason


def test_work_is_the_fullest_partition_and_its_share_of_merging() -> None:
    """Eight records of one key and window on two partitions: 8 / 4 records, 1 partial of 8."""
    ids = np.zeros(8, np.int64)
    stream = Stream(ids=ids, names=pa.array([b"a"]), timestamps_ms=np.arange(8, dtype=np.int64))
    plan = Plan(num_partitions=2, window_ms=10, merge_cost=4.0)
    rows = {row.partitioner: row for row in compare(stream, 0, plan, ["key_hash", "shuffle"])}
    assert rows["key_hash"].work == 2 + 4 * 1 / 8
    assert rows["shuffle"].work == 1 + 4 * 2 / 8
    assert rows["shuffle"].replication_factor == 2
    with_nulls = compare(stream, 8, plan, ["key_hash"])[0]
    assert (with_nulls.imbalance, with_nulls.partials_per_record) == (0.5, 1 / 16)


def test_partials_are_fragmentation_times_keys() -> None:
    stream = zipf(20_000, 500)
    partitions = np.random.default_rng(1).integers(0, 4, 20_000).astype(np.int32)
    found = partials_per_record(stream, partitions, 4, 20_000)
    whole = fragmentation(stream.key_hashes, partitions, stream.timestamps_ms, 20_000)
    assert found * 20_000 == pytest.approx(whole * len(np.unique(stream.ids)))


def test_producers_know_only_their_own_part() -> None:
    stream = zipf(20_000)
    alone = compare(stream, 0, EIGHT, ["pkg"])[0]
    many = compare(
        stream, 0, Plan(num_partitions=8, num_producers=4, window_ms=10_000), ["pkg", "off_greedy"]
    )
    assert {row.partitioner for row in many} == {"pkg", "off_greedy"}
    assert many[0].imbalance != alone.imbalance or many[1].imbalance != alone.imbalance


def test_a_hot_key_is_split() -> None:
    name, reason = advised(one_hot(20_000, 500, 0.5))
    assert PARTITIONERS[name].traits.splits_keys
    assert "instead of 3." in reason
    assert "consumers have to merge" in reason


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({"compacted": True}, "the topic is compacted"),
        ({"keeps_order": True}, "order per key is needed"),
    ],
)
def test_what_forbids_splitting_wins(about: dict[str, object], reason: str) -> None:
    name, why = advised(one_hot(20_000, 500, 0.5), **about)
    assert name == "key_hash"
    assert reason in why


def test_even_keys_stay_hashed() -> None:
    assert advised(uniform(50_000, 20_000))[0] == "key_hash"


def test_merging_that_costs_much_keeps_keys_whole() -> None:
    """Half a record each: what splitting saves in balance it costs in partial results."""
    stream = zipf(5_000, 4_000, 0.6)
    cheap = Plan(num_partitions=8, window_ms=10_000, merge_cost=0.0)
    dear = Plan(num_partitions=8, window_ms=10_000, merge_cost=50.0)
    assert advised(stream, cheap)[0] != "key_hash"
    assert advised(stream, dear)[0] == "key_hash"


def test_bounds_are_shown_and_never_recommended() -> None:
    assert NOT_ADVISED.keys() <= PARTITIONERS.keys()
    works = (("off_greedy", 1.0), ("prompt", 1.0), ("pkg", 1.1), ("key_hash", 2.0))
    rows = [figures(name, work) for name, work in works]
    sample = Sample(source="test", stream=zipf(2_000))
    assert recommend(rows, sample, EIGHT, keeps_order=False).partitioner == "pkg"


def figures(name: str, work: float, partials: float = 0.0, replicas: float = 1.0) -> Figures:
    return Figures(
        partitioner=name,
        splits_keys=replicas > 1,
        imbalance=work - 1 - partials,
        replication_factor=replicas,
        partials_per_record=partials,
        records_per_s=1.0,
        work=work,
    )


def test_what_is_as_good_within_noise_is_chosen_by_what_it_costs() -> None:
    """Of 20,000 records on 8 partitions the fullest exceeds the mean by 2 % by chance alone."""
    sample = Sample(source="test", stream=zipf(20_000))
    hashed = figures("key_hash", 4.0)
    least, fewer = figures("w_choices", 1.050, 0.09, 1.3), figures("hot_fill", 1.060, 0.05, 1.02)
    few, dear = figures("d_choices", 1.055, 0.055, 1.2), figures("pkg", 1.2, 0.05, 1.02)

    def chosen(*rows: Figures, now: Figures | None = None) -> str:
        return recommend([*rows, hashed], sample, EIGHT, keeps_order=False, now=now).partitioner

    assert chosen(least, fewer) == "hot_fill"  # fewer partial results
    assert chosen(few, fewer, dear) == "hot_fill"  # as many, and fewer places of a key
    assert chosen(least, dear) == "w_choices"  # that is no noise
    # What a topic has comes first, and is given up for a tenth of the work only.
    assert chosen(least, fewer, now=figures(PRESENT, 1.15, 0.05, 1.02)) == PRESENT
    assert chosen(least, fewer, now=figures(PRESENT, 1.25, 0.05, 1.02)) == "hot_fill"


def as_in_a_topic(stream: Stream, partitioner: str, near_ms: int | None) -> Sample:
    """A topic filled partition after partition; replayed so (None), or in the order of advise."""
    places = create(partitioner, 8).partition_batch(stream.keys)
    order = np.argsort(places, kind="stable")
    times = np.arange(len(order), dtype=np.int64) // 1_000
    if near_ms is not None:
        order = order[replay_order(times, places[order], near_ms)]
    kept = Stream(ids=stream.ids[order], names=stream.names, timestamps_ms=times)
    load = np.bincount(places, minlength=8)
    return Sample(
        source="test", stream=kept, partitions=places[order], records_per_partition=load, topic="t"
    )


def test_a_topic_filled_at_once_is_no_drift() -> None:
    """Between its partitions times tell no order: in it, hot keys are spread as they always are."""
    stream = zipf(30_000)
    at_once = replace(stream, timestamps_ms=stream.timestamps_ms // 1_000)
    true = compare(at_once, 0, EIGHT, ["hot_fill"])[0]
    one_by_one = compare(as_in_a_topic(stream, "hot_fill", None).stream, 0, EIGHT, ["hot_fill"])[0]
    interleaved = as_in_a_topic(stream, "hot_fill", 5_000)
    found = compare(interleaved.stream, 0, EIGHT, ["hot_fill"])[0]
    assert found.imbalance == pytest.approx(true.imbalance, abs=0.003)
    assert found.partials_per_record == pytest.approx(true.partials_per_record, rel=0.01)
    assert one_by_one.imbalance > 10 * found.imbalance


def test_the_order_of_a_replay() -> None:
    """That of offsets in a partition, of times between stretches, of shares within one."""
    rng = np.random.default_rng(1)
    partitions = rng.choice(4, 3_000, p=[0.6, 0.3, 0.1, 0.0]).astype(np.int32)
    times = np.sort(rng.integers(0, 3_000, 3_000))
    order = replay_order(times, partitions, 1_000)
    assert sorted(order.tolist()) == list(range(3_000))
    assert (np.diff(times[order] - times.min() >= 1_000) >= 0).all()
    for partition in range(4):
        mine = order[partitions[order] == partition]
        assert (np.diff(mine) > 0).all()
    # Any stretch of a second has of each partition what it has in all of it.
    first = partitions[order][times[order] - times.min() < 1_000]
    whole, half = (np.bincount(part, minlength=4) for part in (first, first[: len(first) // 2]))
    assert np.abs(half - whole / 2).max() <= 1


def test_what_is_even_already_is_left_alone() -> None:
    for stream, partitioner, what in (
        (zipf(30_000), "hot_fill", "the load is even as it is (imbalance 0.00"),
        (uniform(30_000, 10_000), "key_hash", "and every key is whole"),
    ):
        sample = as_in_a_topic(stream, partitioner, 5_000)
        now = present(sample, EIGHT)
        rows = compare(sample.stream, 0, EIGHT, NAMES)
        found = recommend(rows, sample, EIGHT, keeps_order=False, now=now)
        assert found.partitioner == PRESENT
        assert what in found.reason
    # Whole by whatever hash; another would leave older records of a key where they are.
    compacted = recommend(rows, sample, EIGHT, keeps_order=True, now=now)
    assert compacted.partitioner == PRESENT
    assert "every key is whole as it is; order per key is needed" in compacted.reason
    assert present(sample, Plan(num_partitions=4)) is None
    assert present(Sample(source="keys", stream=zipf(100)), EIGHT) is None


def test_notes_say_what_a_sample_cannot() -> None:
    few = Sample(source="test", stream=zipf(100), num_null=100, has_times=True, topic="t")
    rows = compare(few.stream, 100, EIGHT, NAMES)
    notes = " ".join(recommend(rows, few, EIGHT, keeps_order=False).notes)
    assert "200 records only" in notes
    assert "less than a window of 10 s" in notes
    assert "50.0 % of the records have no key" in notes
    assert "does not say whether the topic is compacted" in notes


def test_the_holistic_rule_needs_groups_that_are_few_and_constant() -> None:
    assert holistic_rule(uniform(100_000, 10), EIGHT).chosen == "shuffle"
    assert holistic_rule(uniform(100_000, 1_000), EIGHT).chosen == "am or cam"
    # Ten keys a window, but of five windows the middle ones have one, five and ten.
    window = np.arange(50_000) // 10_000
    ids = np.arange(50_000) % np.array([10, 1, 5, 10, 10])[window]
    times = np.arange(50_000, dtype=np.int64)
    changing = Stream(ids=ids, names=pa.array(map(str, range(10))), timestamps_ms=times)
    assert holistic_rule(changing, EIGHT).chosen == "am or cam"
    nothing = stream_of([])[0]
    assert holistic_rule(nothing, EIGHT).keys_per_window == 0


def test_the_lines_to_paste_are_python() -> None:
    for name in PARTITIONERS:
        code = code_to_paste(name, EIGHT, "clicks", "b:9092")
        compile(code, "pasted", "exec")
        assert f'"{name}"' in code


def test_keys_of_a_file_are_the_bytes_they_are(tmp_path: Path) -> None:
    content = b"a\r\n\xff\n\nlast"
    plain, packed = tmp_path / "keys", tmp_path / "keys.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content, mtime=0))
    for path in (plain, packed):
        sample = sample_keys(str(path), Limits())
        assert sample.stream.names.to_pylist() == [b"a", b"\xff", b"", b"last"]
        assert sample.notes == []
    sample = sample_keys(str(plain), Limits(records=2))
    assert sample.num_records == 2
    assert "only the beginning was read" in sample.notes[0]


def test_files_that_hold_no_key_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("no tab here\n")
    source = LineSource(
        inputs=(str(path),), encoding="auto", delimiter="\t", key_column=None, time_column=None
    )
    with pytest.raises(InputError, match=r"1 bad lines, the first because of no delimiter"):
        sample_lines(source, Limits())
    with pytest.raises(InputError, match="missing: No such file"):
        sample_keys(str(tmp_path / "missing"), Limits())


def test_the_figures_are_those_of_the_metrics() -> None:
    stream = zipf(20_000)
    row = compare(stream, 0, EIGHT, ["shuffle"])[0]
    out = create("shuffle", 8).partition_batch(stream.keys)
    assert row.imbalance == imbalance(partition_counts(out, 8))
    assert json.dumps(row.records_per_s)
