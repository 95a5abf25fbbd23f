"""Partitioners on a stream, with many sources and workers, and what that costs by the papers.

``sources`` routes a stream as several producers do; ``windows`` counts what every worker holds in
every window; ``costs`` has the papers' cost models; ``cell`` puts the three together for one
setting; ``sweep`` runs many settings side by side. ``keyspread simulate`` is the command.
"""

from partitioners.simulation.cell import Figures, Setting, StreamSource, simulate
from partitioners.simulation.costs import CostModel, queue_waits_us
from partitioners.simulation.sources import Routed, route_by_sources
from partitioners.simulation.sweep import Sweeper, sweep
from partitioners.simulation.windows import WindowSeries, cumulative_imbalances, measure_windows

__all__ = [
    "CostModel",
    "Figures",
    "Routed",
    "Setting",
    "StreamSource",
    "Sweeper",
    "WindowSeries",
    "cumulative_imbalances",
    "measure_windows",
    "queue_waits_us",
    "route_by_sources",
    "simulate",
    "sweep",
]
