"""Which offsets go into which batch: the part of a reader that runs beside Spark's planner."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from partitioners.errors import RunError
from partitioners.kafka.settings import admin_settings
from pipelines.topics import DescribedTopic, described_topic

Offsets = dict[int, int]
T = TypeVar("T")

_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
LOST = (
    "the topic no longer holds the offsets the checkpoint stands at (it was made anew, or its "
    "records aged out): start again with another checkpoint folder"
)
# As Kafka's Java client waits, so that a broker may be started anew meanwhile.
ANSWER_SECONDS = 60.0
_ATTEMPT_SECONDS = 10.0
_PAUSE_SECONDS = 0.2
# A partition that is added is noticed after so long.
DESCRIBED_SECONDS = 1.0


class TopicOffsets:
    """Asks a topic where its partitions begin and end.

    Args:
        settings: A client's.
        topic: Its name.
    """

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._topic = topic
        self._settings = admin_settings(settings)
        self._admin = AdminClient(self._settings)
        committed = str(settings.get("isolation.level")).lower() == "read_committed"
        self._isolation = (
            IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        )
        self._described: DescribedTopic | None = None
        self._described_s = float("-inf")

    def first(self) -> Offsets:
        """Where every partition begins."""
        return self._ask(range(self._count()), _EARLIEST)

    def last(self, known: Offsets) -> Offsets:
        """Where every partition ends.

        Args:
            known: How far the partitions were read.

        Raises:
            RunError: One has fewer records than were read, or no broker answers.
        """
        ends = self._ask(range(self._count()), _LATEST)
        if any(ends.get(partition, -1) < offset for partition, offset in known.items()):
            raise RunError(LOST)
        return ends

    def first_of_new(self, known: Offsets, ends: Offsets) -> Offsets:
        """Where partitions begin that were added since others were read."""
        new = [partition for partition in ends if partition not in known]
        return self._ask(new, _EARLIEST) if new else {}

    def require(self, topic_id: str | None) -> None:
        """See that the topic is still the one whose offsets are known, asking for it anew.

        Args:
            topic_id: Its id then; None: it was not noted.

        Raises:
            RunError: It was made anew.
        """
        if topic_id is None:
            return
        self._described = None
        if self._describe().topic_id != topic_id:
            raise RunError(LOST)

    @property
    def topic_id(self) -> str:
        """Kafka's id of the topic, as it was described last."""
        return (self._described or self._describe()).topic_id

    def _count(self) -> int:
        return self._describe().num_partitions

    def _describe(self) -> DescribedTopic:
        now_s = time.monotonic()
        if self._described is None or now_s - self._described_s >= DESCRIBED_SECONDS:
            self._described = self._patiently(lambda: described_topic(self._admin, self._topic))
            self._described_s = now_s
        if self._described is None:
            raise RunError(LOST)
        return self._described

    def _ask(self, partitions: Iterable[int], what: OffsetSpec) -> Offsets:
        asked = {TopicPartition(self._topic, partition): what for partition in partitions}

        def ask() -> Offsets:
            found = self._admin.list_offsets(
                asked, isolation_level=self._isolation, request_timeout=_ATTEMPT_SECONDS
            )
            offsets = {at.partition: int(found[at].result().offset) for at in asked}
            # A partition whose broker has just ended is answered for without an error.
            if silent := [partition for partition, offset in offsets.items() if offset < 0]:
                raise RunError(f"no leader answers for partition {silent[0]}")
            return offsets

        return self._patiently(ask)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again where no broker answers, or a partition has no leader for a moment."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return ask()
            except (KafkaException, RunError) as error:
                if time.monotonic() > deadline:
                    reason = error.args[0].str() if isinstance(error, KafkaException) else error
                    raise RunError(
                        f"no broker tells the offsets of topic {self._topic} within "
                        f"{ANSWER_SECONDS:g} s ({reason}): check that its brokers run, and start "
                        "again on the same checkpoint to go on"
                    ) from None
                time.sleep(_PAUSE_SECONDS)
                # What it knows of leaders was true before their broker was started anew.
                self._admin = AdminClient(self._settings)


def limited(starts: Offsets, ends: Offsets, max_records: int) -> Offsets:
    """Bound a batch: every partition gives the same part of what it has.

    Args:
        starts: From where each is read.
        ends: Where each ends.
        max_records: Records of the batch at most.

    Returns:
        Where the batch ends in each partition.

    Example:
        >>> limited({0: 0, 1: 10}, {0: 30, 1: 20}, 20)
        {0: 15, 1: 15}
        >>> limited({0: 0, 1: 0, 2: 7}, {0: 5, 1: 5, 2: 7}, 3)
        {0: 2, 1: 1, 2: 7}
    """
    waiting = {partition: end - starts[partition] for partition, end in ends.items()}
    total = sum(waiting.values())
    if total <= max_records:
        return dict(ends)
    share = {partition: max_records * lag // total for partition, lag in waiting.items()}
    # What rounding leaves goes to those that lost the most by it.
    rest = max_records - sum(share.values())
    by_loss = sorted(waiting, key=lambda partition: -(max_records * waiting[partition] % total))
    for partition in by_loss[:rest]:
        share[partition] += 1
    return {partition: starts[partition] + share[partition] for partition in ends}
