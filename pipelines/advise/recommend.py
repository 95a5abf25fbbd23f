"""From figures to one recommendation with its reason; and the Holistic paper's rule beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partitioners.streams import Stream
from pipelines.advise.compare import PRESENT, Figures, Plan, options_of
from pipelines.advise.sample import Sample
from pipelines.key_names import percent

PLAIN = "key_hash"
WITHOUT_KEYS = "shuffle"
# Splitting has to save so much of the work to be worth what it takes from consumers; and so has any
# change of what a topic has.
WORTH_IT = 0.1
# Less work than this apart says nothing: of a sample, and of how its records met.
_NOISE = 0.02
# And partial results of a record.
_FEW_PARTIALS = 0.01
FEW_RECORDS = 1_000
# "Significantly less" and "constant", of which the paper gives no number.
_FAR_LESS = 0.1
_CONSTANT = 1.2

NOT_ADVISED: dict[str, str] = {
    "off_greedy": "a bound: knows the stream beforehand",
    "on_greedy": "producers would not agree on a key's place",
    "potc": "producers would not agree on a key's place",
    "prompt": "only for producers that send micro-batches",
}
"""Partitioners that are shown but never recommended, with the reason."""


@dataclass(frozen=True, slots=True)
class HolisticRule:
    """The selection rule of Katsipoulakis et al., VLDB 2017, section 7, on a sample.

    Attributes:
        keys_per_window: Mean over tumbling windows.
        records_per_partition_and_window: Mean.
        chosen: `shuffle`, or `am or cam`.
    """

    keys_per_window: float
    records_per_partition_and_window: float
    chosen: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to use, and why.

    Attributes:
        partitioner: Its name; `PRESENT`: nothing need be done.
        reason: One sentence.
        notes: What to know besides.
    """

    partitioner: str
    reason: str
    notes: list[str]


def holistic_rule(stream: Stream, plan: Plan) -> HolisticRule:
    """Apply the rule: few and constant groups, far fewer than a worker's records: shuffle.

    Otherwise `am` and `cam` "offer the best trade-off". "Significantly less" is taken as a tenth,
    "constant" as no more than 1.2 times between the windows that are whole in the sample.

    Args:
        stream: The sample.
        plan: Its windows and partitions.

    Example:
        >>> from partitioners.streams import uniform
        >>> plan = Plan(num_partitions=8, window_ms=10_000)
        >>> holistic_rule(uniform(100_000, num_keys=4), plan).chosen
        'shuffle'
        >>> holistic_rule(uniform(100_000, num_keys=5_000), plan).chosen
        'am or cam'
    """
    windows = np.unique(stream.timestamps_ms // plan.window_ms, return_inverse=True)[1]
    num_windows = int(windows.max()) + 1 if len(windows) else 1
    pairs = np.unique(windows * (int(stream.ids.max(initial=0)) + 1) + stream.ids)
    keys = np.bincount(pairs // (int(stream.ids.max(initial=0)) + 1), minlength=num_windows).astype(
        np.float64
    )
    # The first and the last are cut off by the sample.
    whole = keys[1:-1] if num_windows > 2 else keys
    records = len(stream.ids) / num_windows / plan.num_partitions
    far_less = keys.mean() <= _FAR_LESS * records
    constant = whole.max() <= _CONSTANT * max(whole.min(), 1.0)
    chosen = WITHOUT_KEYS if far_less and constant else "am or cam"
    return HolisticRule(float(keys.mean()), records, chosen)


def recommend(
    figures: Sequence[Figures],
    sample: Sample,
    plan: Plan,
    *,
    keeps_order: bool,
    now: Figures | None = None,
) -> Recommendation:
    """Choose a partitioner.

    Args:
        figures: From `compare`.
        sample: What they are of.
        plan: What for.
        keeps_order: Whether the records of a key have to stay in order.
        now: From `present`: what the topic has.
    """
    notes = _notes(sample, plan)
    forbidden = _forbidden(sample, plan, keeps_order=keeps_order)
    if forbidden is not None:
        if now is None or now.splits_keys or plan.num_partitions == 1:
            return Recommendation(PLAIN, forbidden, notes)
        # By whatever hash: another one would leave a key's older records where they are.
        return Recommendation(PRESENT, f"every key is whole as it is; {forbidden}", notes)
    if not len(sample.stream.ids):
        reason = "no record has a key, so nothing has to be kept together"
        return Recommendation(WITHOUT_KEYS, reason, notes)
    by_name = {row.partitioner: row for row in figures}
    hashed = by_name[PLAIN]
    best = _best([row for row in figures if row.partitioner not in NOT_ADVISED], sample, plan)
    if now is not None and best.work >= now.work * (1 - WORTH_IT):
        return Recommendation(PRESENT, _why_present(now, hashed, best), notes)
    if best.work >= hashed.work * (1 - WORTH_IT):
        return Recommendation(PLAIN, _why_plain(hashed, best), notes)
    return Recommendation(best.partitioner, _why_split(hashed, best), notes)


def _best(rows: Sequence[Figures], sample: Sample, plan: Plan) -> Figures:
    """The one with least work; of those as good as it, the one that costs consumers least."""
    # By chance alone the fullest partition of n records exceeds the mean by about so much.
    chance = float(np.sqrt(plan.num_partitions / sample.num_records))
    least = min(row.work for row in rows)
    rows = [row for row in rows if row.work <= least * (1 + max(chance, _NOISE))]
    fewest = min(row.partials_per_record for row in rows)
    rows = [row for row in rows if row.partials_per_record <= fewest + _FEW_PARTIALS]
    return min(rows, key=lambda row: (round(row.replication_factor, 2), -row.records_per_s))


def _forbidden(sample: Sample, plan: Plan, *, keeps_order: bool) -> str | None:
    """Say why keys have to stay whole for ever, if they have."""
    if plan.num_partitions == 1:
        return "there is one partition, so there is nothing to choose: add partitions first"
    if sample.compacted:
        return (
            "the topic is compacted: of a key on several partitions Kafka would keep a last record "
            "in each, so keys have to stay whole"
        )
    if keeps_order:
        return (
            "order per key is needed: only a key that stays on one partition for ever is read in "
            "order"
        )
    return None


def _why_present(now: Figures, hashed: Figures, best: Figures) -> str:
    even = "even as it is" if now.imbalance <= WORTH_IT else "uneven"
    whole = "" if now.splits_keys else ", and every key is whole"
    why = [f"the load is {even} (imbalance {now.imbalance:.3f}){whole}"]
    if best.work < now.work * (1 - _NOISE):
        saved = 1 - best.work / now.work
        why.append(
            f"the best, {best.partitioner}, would save no more than {100 * saved:.0f} % of the work"
        )
    else:
        why.append("no partitioner would do with clearly less work")
    if now.splits_keys and hashed.work <= now.work * (1 + _NOISE):
        why.append(f"only {PLAIN} would do as well and keep every key whole and in order")
    return "; ".join(why)


def _why_plain(hashed: Figures, best: Figures) -> str:
    if best.partitioner == PLAIN:
        return (
            f"plain hashing is best here: imbalance {hashed.imbalance:.2f}, and every key stays "
            "whole and in order"
        )
    return (
        f"plain hashing is within {100 * WORTH_IT:.0f} % of the best ({best.partitioner}: work "
        f"{best.work:.2f} against {hashed.work:.2f}), and keeps every key whole and in order"
    )


def _why_split(hashed: Figures, best: Figures) -> str:
    saved = 1 - best.work / hashed.work
    what = "it splits keys" if best.splits_keys else "it keeps keys whole within a window"
    return (
        f"{100 * saved:.0f} % less work than with plain hashing: imbalance {best.imbalance:.2f} "
        f"instead of {hashed.imbalance:.2f}, for {best.partials_per_record:.3f} partial results a "
        f"record instead of {hashed.partials_per_record:.3f}; {what}, so consumers have to merge "
        "by window and key, and order per key is given up"
    )


def _notes(sample: Sample, plan: Plan) -> list[str]:
    notes = list(sample.notes)
    if sample.num_records < FEW_RECORDS:
        notes.append(
            f"the sample has {sample.num_records:,} records only: ask again when there are more"
        )
    times = sample.stream.timestamps_ms
    if not sample.has_times:
        notes.append("the records have no times: they are taken as 1 ms apart")
    elif len(times) and int(times.max() - times.min()) < plan.window_ms:
        notes.append(
            f"the sample spans {int(times.max() - times.min()) / 1000:,.1f} s, less than a window "
            f"of {plan.window_ms / 1000:g} s: a whole one has fewer partial results a record"
        )
    if sample.num_null:
        share = percent(sample.num_null / sample.num_records)
        notes.append(f"{share} of the records have no key: every partitioner spreads them evenly")
    if sample.topic is not None and sample.compacted is None:
        notes.append(
            "the broker does not say whether the topic is compacted: if it is, keep key_hash"
        )
    return notes


def code_to_paste(partitioner: str, plan: Plan, topic: str, bootstrap: str) -> str:
    """Give the lines of Python that put a recommendation to work.

    Args:
        partitioner: The one recommended.
        plan: Its windows.
        topic: Where records go.
        bootstrap: The servers.

    Example:
        >>> print(code_to_paste("pkg", Plan(num_partitions=8), "clicks", "b:9092"))
        from partitioners.kafka import PartitionedProducer
        <BLANKLINE>
        producer = PartitionedProducer(
            {"bootstrap.servers": "b:9092"},
            {"clicks": "pkg"},
        )
        producer.produce("clicks", key=b"user-7", value=b"...")
        producer.close()  # flushes; fails unless delivered = produced
    """
    options = options_of(partitioner, plan.window_ms)
    spec = f'("{partitioner}", {_python(options)})' if options else f'"{partitioner}"'
    return "\n".join(
        (
            "from partitioners.kafka import PartitionedProducer",
            "",
            "producer = PartitionedProducer(",
            f'    {{"bootstrap.servers": "{bootstrap}"}},',
            f'    {{"{topic}": {spec}}},',
            ")",
            f'producer.produce("{topic}", key=b"user-7", value=b"...")',
            "producer.close()  # flushes; fails unless delivered = produced",
        )
    )


def _python(options: dict[str, int]) -> str:
    return "{" + ", ".join(f'"{name}": {value:_}' for name, value in options.items()) + "}"
