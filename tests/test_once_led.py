"""A broker that has just started knows no leaders for a moment: it is asked again."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from pipelines.topics import once_led


class Answers:
    """Answers as a broker does, one after the other; then 7."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def __call__(self) -> int:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return 7


def test_it_waits_for_a_leader() -> None:
    codes = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)
    assert once_led(Answers(*codes)) == 7


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._TRANSPORT])
def test_other_answers_are_final(code: int) -> None:
    asked = Answers(code, code)
    with pytest.raises(KafkaException):
        once_led(asked)
    assert asked.codes == [code]


def test_its_patience_ends() -> None:
    with pytest.raises(KafkaException):
        once_led(Answers(*[KafkaError.NOT_LEADER_FOR_PARTITION] * 9), patience_seconds=0.2)
