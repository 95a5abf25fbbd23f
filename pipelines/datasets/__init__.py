"""Data sets for the workloads: generated, or prepared from the official files.

`folder` keeps a folder of files with their checksums, so that a preparation goes on where it was
stopped; `tpch`, `official` and `synthetic` fill one.
"""
