"""Spark's Python daemon with what our stages need imported before it forks workers.

Spark forks a Python worker per running task and stage from one daemon. Imported there, pandas,
Polars, Arrow and protobuf (5 s of processor time) are paid for once instead of once per worker.
The threads that some start at import are their allocators', which forking leaves sound.

After each task Spark collects garbage. What was imported here, a hundred thousand objects, is none:
it is frozen, or 0.07 s of each task would go into looking at it.
"""

import pipelines.installed_spark

# isort: split
import gc

import pandas as pd
import pyarrow.parquet
from pyspark import daemon, worker
from pyspark.sql.pandas import serializers
from pyspark.sql.streaming import stateful_processor_api_client
from pyspark.sql.streaming.proto import StateMessage_pb2

import pipelines.processor
import pipelines.reduce
import pipelines.stages
import pipelines.workloads

PRELOADED = (
    pd,
    pyarrow.parquet,
    pipelines.processor,
    pipelines.reduce,
    pipelines.stages,
    pipelines.workloads,
    serializers,
    stateful_processor_api_client,
    StateMessage_pb2,
    worker,
)

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    daemon.manager()
