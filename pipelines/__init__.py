"""The Spark side: from a split Kafka topic to exact sliding windows.

=================== ==========================================================================
stage or part       modules
=================== ==========================================================================
the engine          engine, stages: combine -> exchange by shard -> reduce -> sinks
window arithmetic   panes, ring, pending, top, aggregates: no Spark in them
what is computed    workloads: data, parse, query, oracle, a file each
parts it runs on    broker (embedded Kafka), session (Spark), java, jars
runs                benchmark: prepare, replay, collect, verify, report
the command line    cli, commands
=================== ==========================================================================
"""
