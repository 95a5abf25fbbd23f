"""librdkafka's C interface, as far as a reader of one partition needs it.

confluent-kafka brings the library along; its Python objects cost 2.4 µs a record, the library 0.3.
Used are the simple consumer (no group, hence no permission on one), `rd_kafka_message_t`, which
is public, and error events.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from typing import Any

import confluent_kafka.cimpl as client_module
import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError

from partitioners.errors import InputError, RunError

# A consumer's, among librdkafka's kinds of clients.
_CONSUMER = 1
_CONF_OK = 0
_EVENT_ERROR = 8
_REASON_BYTES = 512
# Python functions among a client's settings stay where they were given.
_LEFT_HERE = ("error_cb", "stats_cb", "throttle_cb", "logger", "on_commit", "on_delivery")

_library = ctypes.CDLL(client_module.__file__)


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_library, name)
    function.restype, function.argtypes = result, arguments
    return function


_conf_new = _function("rd_kafka_conf_new", c_void_p)
_conf_set = _function("rd_kafka_conf_set", c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)
_conf_set_events = _function("rd_kafka_conf_set_events", None, c_void_p, c_int)
_conf_destroy = _function("rd_kafka_conf_destroy", None, c_void_p)
_new = _function("rd_kafka_new", c_void_p, c_int, c_void_p, c_char_p, c_size_t)
_destroy = _function("rd_kafka_destroy", None, c_void_p)
_main_queue = _function("rd_kafka_queue_get_main", c_void_p, c_void_p)
_queue_destroy = _function("rd_kafka_queue_destroy", None, c_void_p)
_queue_poll = _function("rd_kafka_queue_poll", c_void_p, c_void_p, c_int)
_event_error = _function("rd_kafka_event_error", c_int, c_void_p)
_event_text = _function("rd_kafka_event_error_string", c_char_p, c_void_p)
_event_destroy = _function("rd_kafka_event_destroy", None, c_void_p)
_topic_new = _function("rd_kafka_topic_new", c_void_p, c_void_p, c_char_p, c_void_p)
_start = _function("rd_kafka_consume_start", c_int, c_void_p, c_int32, c_int64)
_stop = _function("rd_kafka_consume_stop", c_int, c_void_p, c_int32)
_batch = _function(
    "rd_kafka_consume_batch", c_ssize_t, c_void_p, c_int32, c_int, c_void_p, c_size_t
)
_one = _function("rd_kafka_consume", c_void_p, c_void_p, c_int32, c_int)
_last_error = _function("rd_kafka_last_error", c_int)
_error_text = _function("rd_kafka_err2str", c_char_p, c_int)
_watermarks = _function(
    "rd_kafka_query_watermark_offsets",
    c_int,
    c_void_p,
    c_char_p,
    c_int32,
    POINTER(c_int64),
    POINTER(c_int64),
    c_int,
)

DESTROY: int = ctypes.cast(_library.rd_kafka_message_destroy, c_void_p).value or 0
"""Address of `rd_kafka_message_destroy`, which frees one message."""


def error_text(code: int) -> str:
    """The library's words for one of its errors."""
    return str(_error_text(code).decode())


class Client:
    """A consumer without a group, of as many topics as one likes.

    A process makes one for each cluster that it reads, and keeps it: to connect takes longer than
    to read a small batch. The settings are librdkafka's; what is of no use to a reader is ignored.

    Args:
        settings: Names and values; functions that only tell of something are left out.

    Raises:
        InputError: A setting is wrong, or is a function that a reader cannot do without.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        reason = ctypes.create_string_buffer(_REASON_BYTES)
        conf = _conf_new()
        for name, value in settings.items():
            if name in _LEFT_HERE or value is None:
                continue
            if callable(value):
                raise InputError(
                    f"the setting {name} is a Python function, which the readers of a topic cannot "
                    "call: use settings that are text, such as sasl.oauthbearer.method=oidc"
                )
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if _conf_set(conf, name.encode(), text.encode(), reason, _REASON_BYTES) != _CONF_OK:
                _conf_destroy(conf)
                raise InputError(_refused(reason))
        _conf_set_events(conf, _EVENT_ERROR)
        self._client = _new(_CONSUMER, conf, reason, _REASON_BYTES)
        if not self._client:
            _conf_destroy(conf)
            raise InputError(_refused(reason))
        self._events = _main_queue(self._client)
        self._topics: dict[str, int] = {}
        self._started: set[tuple[str, int]] = set()

    def close(self) -> None:
        """Let the cluster go; only for a client that has read nothing."""
        assert not self._topics
        _queue_destroy(self._events)
        _destroy(self._client)

    def start(self, topic: str, partition: int, offset: int) -> None:
        """Begin to fetch a partition.

        Raises:
            RunError: It is being read already, or librdkafka refuses.
        """
        if (topic, partition) in self._started:
            raise RunError(
                f"partition {partition} of topic {topic} is being read in this process already: "
                "read on there, or close that reader first"
            )
        if topic not in self._topics:
            self._topics[topic] = _topic_new(self._client, topic.encode(), None)
        if _start(self._topics[topic], partition, offset) < 0:
            raise RunError(_cannot_read(topic, partition))
        self._started.add((topic, partition))

    def stop(self, topic: str, partition: int) -> None:
        """End what `start` began, and drop what was fetched beyond."""
        if (topic, partition) in self._started:
            _stop(self._topics[topic], partition)
            self._started.remove((topic, partition))

    def take(
        self, topic: str, partition: int, messages: npt.NDArray[np.int64], timeout_ms: int
    ) -> int:
        """Take messages that were fetched, or wait for the first.

        Args:
            topic: The topic.
            partition: One that was started.
            messages: Takes their addresses, each to be freed with `DESTROY`.
            timeout_ms: How long to wait.

        Returns:
            How many there are.

        Raises:
            RunError: librdkafka refuses.
        """
        # Asked for many, librdkafka would wait until it has as many.
        reading = self._topics[topic]
        first = _one(reading, partition, timeout_ms)
        if not first:
            return 0
        messages[0] = first
        rest = messages[1:]
        taken = int(_batch(reading, partition, 0, rest.ctypes.data, len(rest)))
        if taken < 0:
            raise RunError(_cannot_read(topic, partition))
        return 1 + taken

    def end(self, topic: str, partition: int, timeout_ms: int) -> tuple[int, int]:
        """Offset behind the last record, and 0; or -1 and librdkafka's error code."""
        low, high = c_int64(), c_int64()
        code = int(_watermarks(self._client, topic.encode(), partition, low, high, timeout_ms))
        return (-1, code) if code else (int(high.value), 0)

    def complaint(self) -> tuple[int, str] | None:
        """The last error of its connections since this was asked: code and words."""
        last = None
        while event := _queue_poll(self._events, 0):
            text = _event_text(event)
            last = (int(_event_error(event)), text.decode(errors="replace") if text else "")
            _event_destroy(event)
        return last


def _refused(reason: Any) -> str:
    words = " ".join(reason.value.decode().split())
    return f"a reader cannot use the Kafka settings ({words}): correct them"


def _cannot_read(topic: str, partition: int) -> str:
    return f"cannot read partition {partition} of topic {topic} ({error_text(_last_error())})"


AUTHENTICATION: int = KafkaError._AUTHENTICATION
END_OF_PARTITION: int = KafkaError._PARTITION_EOF
