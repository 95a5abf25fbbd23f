"""Producers that have a client: what becomes of them at a fork and at the end of the program."""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partitioners.kafka.producer import PartitionedProducer

log = logging.getLogger(__name__)

FLUSH_AT_EXIT_S = 30.0

# Strong references: a producer that the program forgot still delivers what it queued.
_open: set[PartitionedProducer] = set()


def add(producer: PartitionedProducer) -> None:
    """Remember a producer that made its client."""
    _open.add(producer)


def discard(producer: PartitionedProducer) -> None:
    """Forget a producer that was closed."""
    _open.discard(producer)


def _after_fork_in_child() -> None:
    """Part a child from its parent's clients, whose threads did not come along.

    Such a client never delivers, and its end would wait for its threads for ever: it is given
    one more reference, so that it has no end.
    """
    for producer in list(_open):
        client = producer._client
        if client is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        producer._begin()
    _open.clear()


def _flush_at_exit() -> None:
    for producer in list(_open):
        # Its length counts what the client has to say of brokers too: hear it first.
        producer.poll()
        if waiting := len(producer):
            log.warning("a producer was not closed; flushing its %d records", waiting)
            if lost := producer.flush(FLUSH_AT_EXIT_S):
                log.error("%d records were not delivered: close the producer", lost)


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_flush_at_exit)
