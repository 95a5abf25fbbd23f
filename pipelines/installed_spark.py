"""Imported first, lets Python find the installed PySpark, not Spark's zip of the same.

Spark puts its zips before everything else, where nothing is kept compiled: a second of processor
time for each daemon. Runs on one machine go without the zips (`session`); others have them.
"""

import importlib.machinery
import sys

_beside_zips = [entry for entry in sys.path if not entry.endswith(("pyspark.zip", "-src.zip"))]
if importlib.machinery.PathFinder.find_spec("pyspark", _beside_zips):
    sys.path[:] = _beside_zips
