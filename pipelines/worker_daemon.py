"""Spark's Python daemon with what our stages need imported before it forks workers.

Spark forks a Python worker per running task and stage from one daemon. Imported there, pandas,
Polars and Arrow (3 s of processor time) are paid for once instead of once per worker. None of them
starts threads at import, so forking is safe.
"""

import pyarrow.parquet
from pyspark import daemon, worker
from pyspark.sql.pandas import serializers

import pipelines.reduce
import pipelines.stages

PRELOADED = (pyarrow.parquet, serializers, worker, pipelines.reduce, pipelines.stages)

if __name__ == "__main__":
    daemon.manager()
