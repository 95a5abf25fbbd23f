"""The reducer as a service: a loop over a channel, until told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable

from partitioners.dalton.channels import ReducerChannel
from partitioners.dalton.messages import GlobalTable
from partitioners.dalton.reducer import Clock, QTableReducer

_LONGEST_WAIT_S = 0.2


def run_reducer(
    channel: ReducerChannel,
    reducer: QTableReducer,
    *,
    clock: Clock,
    stop: threading.Event,
    on_round: Callable[[GlobalTable], None] | None = None,
) -> int:
    """Serve a group of agents.

    Args:
        channel: The reducer's end of the group's channel.
        reducer: It goes on from the channel's last table, if there is one.
        clock: Milliseconds, the reducer's own clock; measures busy and idle time.
        stop: Set it to end the service, from another thread or a signal handler.
        on_round: Called with every table after it was sent.

    Returns:
        How many rounds were closed.
    """
    last = channel.last_table()
    if last is not None:
        reducer.start_from(last)
    rounds = 0
    wait_s = min(_LONGEST_WAIT_S, reducer.config.wait_ms / 1_000)
    while not stop.is_set():
        began_ms = clock()
        messages = channel.receive(wait_s)
        arrived_ms = clock()
        for message in messages:
            reducer.receive(message)
        table = reducer.close_if_due()
        if table is not None:
            channel.broadcast(table)
            rounds += 1
        reducer.note_time(busy_ms=clock() - arrived_ms, idle_ms=arrived_ms - began_ms)
        if table is not None and on_round is not None:
            on_round(table)
    return rounds
