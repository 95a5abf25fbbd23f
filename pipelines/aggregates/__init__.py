"""Aggregates over windows: what a combiner keeps per pane and key, and how a reducer slides it.

An aggregate's state is a few int64 columns per key. It is *created* from raw records, *accumulated*
per pane and key, *combined* over panes and partitions, and *finished* into a column of the results.
How it slides:

| `slides` | a pane that leaves the window | examples |
|---|---|---|
| "adds" | is deducted: the state is a sum, columns are subtracted | count, sum, mean, variance |
| "newest" | needs nothing: the newest pane decides, and leaves last | the latest event time |
| "stacks" | is forgotten: two stacks of combined panes (`stacks`) | minimum, first, a user's own |
| "values" | its values are deducted one by one (`value_sets`) | quantiles, distinct values |
| "deducts" | is taken out by the aggregate's own `deduct` | an exclusive or |
| "derived" | needs nothing: it follows from the other states of the key | a ratio to rank by |

Integers only, so that a window's value never depends on how often it slid or in which order its
parts came; money and measured decimals are scaled to integers by the workload. Sums have any size.
"""

from pipelines.aggregates.base import (
    LARGEST,
    SMALLEST,
    TIMESTAMP,
    Aggregate,
    ByColumn,
    Gives,
    Int64s,
    Slides,
)
from pipelines.aggregates.extremes import Extreme, First, Last, Latest, Max, Min
from pipelines.aggregates.of_query import Aggregates
from pipelines.aggregates.of_values import (
    Derived,
    Distinct,
    Median,
    OfValues,
    OfWindow,
    Quantile,
    SlidingCells,
)
from pipelines.aggregates.sums import Count, Mean, Sum, Variance

__all__ = [
    "LARGEST",
    "SMALLEST",
    "TIMESTAMP",
    "Aggregate",
    "Aggregates",
    "ByColumn",
    "Count",
    "Derived",
    "Distinct",
    "Extreme",
    "First",
    "Gives",
    "Int64s",
    "Last",
    "Latest",
    "Max",
    "Mean",
    "Median",
    "Min",
    "OfValues",
    "OfWindow",
    "Quantile",
    "Slides",
    "SlidingCells",
    "Sum",
    "Variance",
]
