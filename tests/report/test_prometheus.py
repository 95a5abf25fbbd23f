"""Samples of keys, and the server of metrics; the figures themselves need a broker and Spark."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from partitioners.errors import InputError
from partitioners.kafka.key_sample import EVERY, MOST_SAMPLES, KeySample
from pipelines.metrics import MetricsServer, serve_metrics
from tests.dashboards import BOARDS, filled_in, label_queries, panels, read_board, variables


def read(server: MetricsServer) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("kind", ["arrow", "list"])
def test_a_sample_knows_the_hot_keys_and_those_that_are_split(kind: str) -> None:
    weights = np.arange(1, 1_001) ** -1.2
    ids = np.random.default_rng(1).choice(1_000, 200_000, p=weights / weights.sum())
    names = [f"key-{number}" for number in ids.tolist()]
    keys = pa.array(names) if kind == "arrow" else names
    # The hottest key on three partitions, all others whole.
    partitions = np.where(ids == 0, np.arange(200_000) % 3, 5).astype(np.int32)
    sample = KeySample()
    for low in range(0, 200_000, 10_007):
        sample.add_rows(keys[low : low + 10_007], partitions[low : low + 10_007])
    first = sample.hottest(1)[0]
    assert (first.key, first.num_partitions) == ("key-0", 3)
    # 781 samples: five standard errors.
    share = float((ids == 0).mean())
    assert abs(first.share - share) < 5 * np.sqrt(share * (1 - share) * EVERY / 200_000)
    assert sample.num_split == 1


def test_a_periodic_stream_hides_nothing() -> None:
    # Every 256th record is the hot key, and none in between.
    keys = ["hot" if i % EVERY == 0 else f"cold-{i % 7}" for i in range(EVERY * 10)]
    sample = KeySample()
    for _ in range(400):
        sample.add_rows(keys, np.zeros(len(keys), np.int32))
    shares = {hot.key: hot.share for hot in sample.hottest(8)}
    assert shares.get("hot", 0.0) < 0.02
    assert len(shares) >= 7
    # Nor within a batch: every other record is the hot key.
    sample = KeySample()
    alternating = ["hot", "cold"] * 50_000
    sample.add_rows(alternating, np.zeros(100_000, np.int32))
    assert 0.3 < sample.hottest(1)[0].share < 0.7


def test_what_was_hot_fades_and_memory_is_bounded() -> None:
    sample = KeySample()
    for _ in range(MOST_SAMPLES // 2):
        sample.add(b"old", 0)
    for number in range(6 * MOST_SAMPLES):
        sample.add(b"new" if number % 2 else b"rare-%d" % number, 1)
    assert [hot.key for hot in sample.hottest(1)] == [b"new"]
    assert {hot.key: hot.share for hot in sample.hottest(9)}.get(b"old", 0.0) < 0.02
    assert sample.num_keys < MOST_SAMPLES


def test_null_keys_and_odd_batches_are_no_samples() -> None:
    sample = KeySample()
    sample.add(None, 0)
    sample.add_rows(pa.array([], pa.binary()), np.empty(0, np.int32))
    sample.add_rows([None] * 1_000, np.zeros(1_000, np.int32))
    assert sample.hottest(3) == []
    assert (sample.num_keys, sample.num_split) == (0, 0)


class One(Collector):
    def __init__(self, value: float) -> None:
        self.value = value

    def collect(self):
        yield GaugeMetricFamily("x", "x", value=self.value)


def test_a_server_shows_what_it_is_told_to_show() -> None:
    with MetricsServer(0) as server:
        assert "x " not in read(server)
        server.show([One(1.0)])
        assert "\nx 1.0" in read(server)
        server.show([One(2.0)])
        assert "\nx 2.0" in read(server)
        assert "\nx 1.0" not in read(server)
    with pytest.raises(OSError, match="refused"):
        read(server)


def test_a_port_that_cannot_be_had_is_named() -> None:
    with (
        MetricsServer(0) as server,
        pytest.raises(InputError, match=rf"cannot serve metrics on 127.0.0.1:{server.port}"),
    ):
        MetricsServer(server.port)
    with pytest.raises(InputError, match="--metrics-port must be 0 to 65,535, not 70000"):
        MetricsServer(70_000)
    with pytest.raises(InputError, match="no-such-host"):
        MetricsServer(0, "no-such-host.invalid")
    with serve_metrics(None) as nothing:
        assert nothing is None


@pytest.mark.parametrize("path", BOARDS)
def test_dashboards_fit_their_grid(path: Path) -> None:
    board = read_board(path)
    placed = board["panels"]
    assert len({panel["id"] for panel in placed}) == len(placed)
    taken: set[tuple[int, int]] = set()
    for panel in placed:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        places = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not places & taken, panel["title"]
        taken |= places
        assert panel["type"] == "row" or panel["description"]


@pytest.mark.parametrize("path", BOARDS)
def test_dashboards_have_the_variables_that_they_use(path: Path) -> None:
    board = read_board(path)
    known = {each["name"] for each in board["templating"]["list"]} | {"__rate_interval"}
    assert label_queries(board).keys() == {"topic"}
    shown = panels(board)
    assert len(shown) >= 10
    for panel in shown:
        assert panel.expressions
        for expression in panel.expressions:
            assert variables(expression) <= known
            given = filled_in(expression, dict.fromkeys(known, "5m"))
            assert "$" not in given
