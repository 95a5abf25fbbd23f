"""Dalton: hot keys are spread by what was learned of each partition; the rest goes home.

The algorithm, its paper, symbols, costs and departures stand in ``partitioner``.

One producer: ``config`` the options; ``partitioner`` the class; ``step`` Algorithm 1, record by
record; ``frequency`` counts of keys; ``qtable`` the rows; ``draws`` random numbers; ``state`` the
arrays; ``queries`` questions to them.

Several producers: ``cooperative`` the agent (Algorithm 2); ``adopt`` its way between arrays and
messages; ``messages`` what is said, and the wire; ``reducer`` one table of all; ``service`` the
reducer's loop; ``channels`` the ways there are; ``partitioners.kafka.dalton_channel`` the one over
Kafka topics.
"""

from partitioners.dalton.channels import AgentChannel, MemoryChannel, ReducerChannel
from partitioners.dalton.config import DaltonConfig
from partitioners.dalton.cooperative import CooperativeConfig, CooperativeDalton
from partitioners.dalton.messages import GlobalTable, LeaveMessage, SyncMessage
from partitioners.dalton.partitioner import Dalton
from partitioners.dalton.reducer import QTableReducer, ReducerConfig
from partitioners.dalton.service import run_reducer

__all__ = [
    "AgentChannel",
    "CooperativeConfig",
    "CooperativeDalton",
    "Dalton",
    "DaltonConfig",
    "GlobalTable",
    "LeaveMessage",
    "MemoryChannel",
    "QTableReducer",
    "ReducerChannel",
    "ReducerConfig",
    "SyncMessage",
    "run_reducer",
]
