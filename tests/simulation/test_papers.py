"""The papers' experiments at a small scale: they run, repeat, and say what papers say."""

from __future__ import annotations

import json
import re

import pytest

from partitioners.simulation import Sweeper
from pipelines.simulation.papers import PAPERS, Lab, enorm, holistic, pkg, pkg_cluster, prompt
from pipelines.simulation.papers.dalton import Run, perform, prices_of, workers_of
from pipelines.simulation.papers.dalton_drift import Clustering, cluster
from pipelines.simulation.papers.enorm import fewest_parts
from pipelines.simulation.reproduction import as_json, markdown, reproduce

SCALE = 0.002


@pytest.fixture(scope="module")
def results():
    return reproduce(list(PAPERS.values()), jobs=1, scale=SCALE)


def lab(scale=0.02):
    return Lab(Sweeper(1), scale=scale)


def rows_of(experiment):
    return [dict(zip(experiment.columns, row, strict=True)) for row in experiment.rows]


def test_every_experiment_has_a_whole_table(results):
    assert [result.paper.name for result in results] == list(PAPERS)
    for result in results:
        assert len(result.experiments) == len(result.paper.experiments)
        for experiment in result.experiments:
            assert experiment.rows, experiment.title
            assert experiment.data, experiment.title
            assert all(len(row) == len(experiment.columns) for row in experiment.rows)
            assert not any("nan" in cell for row in experiment.rows for cell in row)


def test_the_page_has_every_table_and_the_command_that_made_it(results):
    text = markdown(results, scale=SCALE)
    assert f"keyspread simulate --paper all --scale {SCALE:g} --markdown" in text
    for result in results:
        assert f"\n## {result.paper.name}\n" in text
        for experiment in result.experiments:
            assert f"\n### {experiment.title}\n" in text
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        assert len({line.count(" | ") for line in table.splitlines() if "---" not in line}) == 1
    assert json.loads(json.dumps(as_json(results)))["pkg"][0]["title"].startswith("Table I")


def test_processes_do_not_change_the_figures(results):
    chosen = [PAPERS["prompt"], PAPERS["enorm"]]
    again = reproduce(chosen, jobs=2, scale=SCALE)
    once = [result for result in results if result.paper in chosen]
    assert as_json(again) == as_json(once)


def test_pkg_fails_where_the_paper_fails():
    # Two workers of a top key of 9.32 % leave 4.66 % - 1/W above the mean.
    rows = pkg.table_2(lab(0.005)).rows
    pkg_5, pkg_50, pkg_100, hashing_5 = (
        float(next(row for row in rows if row[:2] == ["WP", name])[column])
        for name, column in (("PKG", 3), ("PKG", 7), ("PKG", 9), ("Hashing", 3))
    )
    assert pkg_5 < 1e-3 < hashing_5
    assert pkg_50 == pytest.approx(0.0466 - 1 / 50, abs=0.002)
    assert pkg_100 == pytest.approx(0.0466 - 1 / 100, abs=0.002)


def test_the_cluster_model_loses_what_the_paper_lost():
    losses = {row[0]: float(row[5].rstrip("%")) for row in pkg_cluster.figure_5a(lab()).rows}
    assert losses["PKG"] == losses["SG"] == 37
    assert losses["KG"] == pytest.approx(60, abs=4)


def test_holistic_ranks_are_those_of_the_paper():
    speeds = {row[0]: float(row[4]) for row in holistic.debs_q1(lab(1.0)).rows}
    whole = [speeds[name] for name in ("FLD-1", "AM-2", "cAM-2", "AM-5", "cAM-5")]
    splitting = [speeds[name] for name in ("SH", "PK-2", "PK-5", "CM-2", "LM-2")]
    assert min(whole) > 4.5 * max(splitting)
    assert 4.5 <= speeds["AM-2"] <= 11.6
    few_groups = {row[0]: float(row[12]) for row in holistic.tpch_q1(lab()).rows}
    assert max(few_groups, key=few_groups.__getitem__) == "SH"


def test_prompt_has_both_imbalances_small():
    rows = rows_of(prompt.figure_10(lab(0.2)))
    for data in ("Tweets", "TPC-H"):
        part = {row["technique"]: row for row in rows if row["data"] == data}
        assert float(part["Prompt"]["BSI"]) < 1
        assert float(part["Prompt"]["/ Shuffle"]) < 0.5
        assert float(part["Prompt"]["KSR"]) < 1.01


def test_consolidation_counts_are_the_published_ones():
    first = rows_of(enorm.consolidation(lab()))[0]
    assert (first["naive"], first["efficient"]) == ("240", "86")
    # By hand: 5 minutes of 5 ones; 10 of two fives; 15 of ten and five; 20 of two tens.
    counts = [fewest_parts(size, 60, (5, 10, 15, 20), 1) for size in (5, 10, 15, 20)]
    assert counts == [60, 12, 8, 6]


def test_migration_follows_the_overload():
    rows = {row[0]: row for row in enorm.figure_13(lab(0.3)).rows}
    assert float(rows["instant, every pane"][1]) < float(rows["every 5 minutes"][1]) / 2
    assert float(rows["none"][4]) == 1.0 < float(rows["instant, every pane"][4]) < 2.0


def test_daltons_model_by_hand():
    run = Run(lab().stream("uniform:num_keys=10", 20_000), "Dalton", 16)
    assert workers_of(run) == (14, 2)
    assert (prices_of(run).record_us, prices_of(run).forwards_whole) == (60.0, True)
    hashing = Run(run.stream, "Hashing", 16)
    assert workers_of(hashing) == (16, 1)
    assert prices_of(hashing).merge_us == 0.0
    # One key of all records: one combiner does 60 updates a record and emits one row a slide.
    one = Run(lab(1.0).stream("one_hot:fraction=1", 70_000), "Hashing", 8)
    assert perform(one).throughput == pytest.approx(1_000 / (1_000 * 60 + 1) * 1e6)
    assert perform(one).top_splits == (1,) * 11


def test_the_clustering_model_by_hand():
    stream = lab(1.0).stream("one_hot:fraction=1", 70_000)
    # One key whole: each pair of the window's 60,000 records at one combiner, for 10,000 new ones.
    pairs = 60_000 * 60_001 / 2
    rates, same = cluster(Clustering(stream, "Hashing", 8, 60_000, 10_000))
    assert rates == same == pytest.approx((10_000 / pairs,) * 2)
    # Split over seven combiners: half the records are clusters, paired at one reducer.
    rates, same = cluster(Clustering(stream, "Shuffling", 8, 60_000, 10_000))
    assert rates == pytest.approx((10_000 / (30_000 * 30_001 / 2),) * 2)
    assert same == pytest.approx((10_000 / pairs,) * 2)
