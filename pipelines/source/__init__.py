"""Reads a topic where it is combined: Kafka to Arrow in the worker, without Spark in between.

Spark's own Kafka source makes a row of seven columns of every record and sends it to Python. Here
Spark plans (which offsets are in which batch, in its checkpoint), and each task reads its offsets
by itself with librdkafka and combines them at once: what crosses to Spark are partials.
"""
