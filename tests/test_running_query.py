"""When a query has ended; and one whose Java process has gone: an error in a sentence."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.java_gateway import (  # type: ignore[import-untyped]
    GatewayParameters,
    JavaGateway,
)
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql.streaming.query import StreamingQuery

from partitioners.errors import RunError
from pipelines.batch_sink import BatchSink
from pipelines.engine import RunningQuery
from pipelines.listener import ProgressListener


def running(begin: Callable[[], StreamingQuery], sink: Any) -> tuple[RunningQuery, Any]:
    """A query over a sink, and what it hears of Spark."""
    listener = ProgressListener(cast("Any", None))
    return RunningQuery(begin, listener, cast(BatchSink, sink), 1), listener


@pytest.fixture
def query() -> Iterator[RunningQuery]:
    """Spark's own client classes, with nobody at the other end."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # bound, so nobody else takes it; answers nobody
        parameters = GatewayParameters(port=holder.getsockname()[1])
        gateway = JavaGateway(gateway_parameters=parameters)
        sink = SimpleNamespace(end_batch=lambda _num_partitions: None)
        yield running(lambda: StreamingQuery(gateway.entry_point), sink)[0]


def test_waiting_for_it_says_that_java_is_gone(query: RunningQuery) -> None:
    with pytest.raises(RunError, match="Spark's Java process is gone: it was killed or ran out"):
        query.await_end(0)


def test_stopping_it_is_no_error(query: RunningQuery) -> None:
    query.stop()


def test_a_ctrl_c_in_the_midst_of_a_call_is_no_end_of_java(
    query: RunningQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_query: StreamingQuery) -> bool:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as stop:
            raise Py4JError("An error occurred while calling o55.isActive") from stop

    monkeypatch.setattr(StreamingQuery, "isActive", property(interrupted))
    with pytest.raises(KeyboardInterrupt):
        query.await_end(0)


def test_the_end_is_the_commit_of_the_last_batch() -> None:
    stopped: list[bool] = []
    spark = SimpleNamespace(isActive=True, runId="run", stop=lambda: stopped.append(True))
    sink = SimpleNamespace(end_batch=lambda _num_partitions: None)
    query, heard = running(lambda: cast(StreamingQuery, spark), sink)
    sink.end_batch = lambda _num_partitions: 3
    heard.committed = 2
    assert not query.await_end(0)
    assert query.ended_s is None
    assert not stopped
    heard.committed = 3
    assert query.await_end(0)
    assert query.ended_s is not None
    assert stopped


def test_an_end_that_comes_with_the_start_is_no_earlier_lifes() -> None:
    # Of that, Spark would have no batch to tell; of this it has.
    sink = SimpleNamespace(end_batch=lambda _num_partitions: None)

    def begin() -> StreamingQuery:
        sink.end_batch = lambda _num_partitions: 0
        return cast(StreamingQuery, SimpleNamespace(isActive=True, runId="run"))

    query, _ = running(begin, sink)
    assert not query.await_end(0)
