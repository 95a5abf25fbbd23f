"""One topic of a producer: its partitioner, its partition count, and what was sent where."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from partitioners import Partitioner, create
from partitioners.errors import InputError
from partitioners.hashing import hash_keys_with_nulls
from partitioners.kafka.waiting import Waiting

log = logging.getLogger(__name__)

PartitionerSpec: TypeAlias = str | Partitioner | tuple[str, Mapping[str, Any]]
OnPartitionChange: TypeAlias = Literal["follow", "keep", "fail"]
ON_PARTITION_CHANGE: tuple[OnPartitionChange, ...] = ("follow", "keep", "fail")


@dataclass(frozen=True)
class TopicCounts:
    """Records of one topic, per partition.

    Attributes:
        produced: Records the client took, `int64[P]`.
        failed: Records of these that will not arrive, `int64[P]`.
    """

    produced: npt.NDArray[np.int64]
    failed: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batches:
    """When records that wait are a micro-batch; see `partitioners.kafka.waiting.Waiting`."""

    max_records: int
    max_ms: int
    max_record_bytes: int


class Route:
    """A topic's partitioner, fitted to its partition count, and its counters.

    Args:
        topic: The topic.
        spec: Name, name with options, or partitioner.
        num_partitions: The broker's count.
        batches: When records that wait are a micro-batch.

    Raises:
        InputError: The partitioner is for another number of partitions, or unknown.
    """

    def __init__(
        self, topic: str, spec: PartitionerSpec, num_partitions: int, batches: Batches
    ) -> None:
        self.topic = topic
        self.num_partitions = num_partitions
        # Python lists: a counter of one record costs 30 ns here and 90 in a NumPy array.
        self.produced = [0] * num_partitions
        self.failed = [0] * num_partitions
        self.next_check_s = 0.0
        if isinstance(spec, Partitioner):
            if spec.num_partitions != num_partitions:
                raise InputError(
                    f'topic "{topic}" has {num_partitions} partitions and its partitioner '
                    f"{spec.num_partitions}: make it for {num_partitions}, or give its name"
                )
            self.partitioner = spec
        elif isinstance(spec, str):
            self.partitioner = create(spec, num_partitions)
        else:
            name, options = spec
            self.partitioner = create(name, num_partitions, **options)
        # One that was given may have been fitted; one given by name is fitted by its first batch.
        self.awaits_batch = not isinstance(spec, Partitioner) and (
            self.partitioner.traits.needs_batch
        )
        self.waiting = Waiting(batches.max_records, batches.max_ms, batches.max_record_bytes)
        own = type(self.partitioner).partition_micro_batch
        self._plans_every_batch = own is not Partitioner.partition_micro_batch
        # Whether records that come one by one must wait for the others of their micro-batch.
        self.plans_batches = self.awaits_batch or self._plans_every_batch

    def fit(self, keys: Any) -> None:
        """Show the first batch to a partitioner that decides well only when it knows the keys.

        Args:
            keys: The keys of the batch.
        """
        if not self.awaits_batch:
            return
        hashes, is_null = hash_keys_with_nulls(keys, function=self.partitioner.hash_function)
        # The trait promises the method; it is no part of the protocol of all partitioners.
        if not self._plans_every_batch:
            fit = getattr(self.partitioner, "fit")  # noqa: B009
            fit(hashes if is_null is None else hashes[~is_null])
        self.awaits_batch = False
        self.plans_batches = self._plans_every_batch

    def note_produced(self, partition: int) -> None:
        """Count a record; its partition may be one of the user's own choice, not seen before."""
        missing = partition + 1 - len(self.produced)
        if missing > 0:
            self.produced += [0] * missing
            self.failed += [0] * missing
        self.produced[partition] += 1

    def resize(self, num_partitions: int, rule: OnPartitionChange) -> None:
        """Take note of the broker's count; make the partitioner anew if it changed.

        Args:
            num_partitions: The broker's count now.
            rule: `follow` makes it anew for the new count, with its options and without what it
                had learned; `keep` stays on the partitions there were; `fail` raises.

        Raises:
            InputError: The count changed and the rule is `fail`, or `keep` and it shrank.
        """
        old = self.num_partitions
        if num_partitions == old or (rule == "keep" and num_partitions > old):
            return
        change = f'topic "{self.topic}" has {num_partitions} partitions now, and had {old}'
        if rule != "follow":
            raise InputError(f'{change}: start anew, or use on_partition_change="follow"')
        self.partitioner = type(self.partitioner)(num_partitions, self.partitioner.config)
        self.num_partitions = num_partitions
        self.awaits_batch = self.partitioner.traits.needs_batch
        self.plans_batches = self.awaits_batch or self._plans_every_batch
        more = [0] * max(0, num_partitions - old)
        self.produced += more
        self.failed += more
        log.warning(
            "%s: %s was made anew for them; keys move, and what is whole within a window may be "
            "on two partitions in this one",
            change,
            self.partitioner.name,
        )

    def counts(self) -> TopicCounts:
        """Copy the counters."""
        return TopicCounts(np.array(self.produced, np.int64), np.array(self.failed, np.int64))


def check_specs(specs: Mapping[str, PartitionerSpec]) -> dict[str, PartitionerSpec]:
    """Check partitioners given by topic before any broker is asked.

    Args:
        specs: Partitioner of each topic.

    Returns:
        A copy.

    Raises:
        InputError: A partitioner is unknown, of no known form, or given to two topics.
    """
    seen: dict[int, str] = {}
    for topic, spec in specs.items():
        if isinstance(spec, Partitioner):
            if id(spec) in seen:
                raise InputError(
                    f'topics "{seen[id(spec)]}" and "{topic}" share one partitioner, whose loads '
                    "would mix: make one for each"
                )
            seen[id(spec)] = topic
        elif isinstance(spec, str):
            create(spec, 1)
        elif isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[1], Mapping):
            create(spec[0], 1, **spec[1])
        else:
            raise InputError(
                f'the partitioner of topic "{topic}" must be a name, (name, options) or a '
                f"Partitioner, not {type(spec).__name__}"
            )
    return dict(specs)
