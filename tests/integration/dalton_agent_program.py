"""An agent of Dalton as a process of its own, for tests that kill it: routes until it is ended.

Says ``joined`` once it has a table of the group and ``awaits`` once a message of its is under way
that nobody answered yet; after that it only waits for a line on stdin, in mid-sync.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from partitioners.dalton import CooperativeDalton
from partitioners.kafka.dalton_channel import KafkaAgentChannel
from partitioners.streams import zipf


def main() -> None:
    """Route as the arguments say: bootstrap, group, number of partitions, name."""
    bootstrap, group, num_partitions, name = sys.argv[1:]
    config = {"bootstrap.servers": bootstrap}
    channel = KafkaAgentChannel(config, group, int(num_partitions))
    agent = CooperativeDalton(int(num_partitions), channel=channel, agent=name)
    stream = zipf(50_000, 500, 1.4, seed=3)
    start, said = 0, False
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        rows = np.arange(start, start + 250)
        agent.route(stream.key_hashes[rows % 50_000], rows, np.empty(250, np.int32))
        start += 250
        if not agent.is_alone and not said:
            said = True
            print("joined", flush=True)
        if said and agent.awaits:
            print("awaits", flush=True)
            sys.stdin.readline()
            return


if __name__ == "__main__":
    main()
