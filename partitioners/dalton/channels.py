"""How messages travel: what an agent and the reducer ask of a channel, and one in memory."""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

from partitioners.dalton.messages import GlobalTable, LeaveMessage, SyncMessage

_MAX_WAITING = 10_000  # messages; a reducer that is gone must not fill the memory


class AgentChannel(Protocol):
    """An agent's end. No call blocks or raises for a broken channel: messages get lost instead."""

    def send(self, message: SyncMessage | LeaveMessage) -> None:
        """Hand a message to the reducer, if one is there."""

    def receive(self) -> list[GlobalTable]:
        """Take the tables that came since the last call; the first time also the last one known."""

    def close(self) -> None:
        """Give the channel back, with what was sent under way."""


class ReducerChannel(Protocol):
    """The reducer's end."""

    def last_table(self) -> GlobalTable | None:
        """Give the table that another reducer of the group broadcast last, if any."""

    def receive(self, timeout_s: float) -> list[SyncMessage | LeaveMessage]:
        """Wait for messages.

        Args:
            timeout_s: At most so long.
        """

    def broadcast(self, table: GlobalTable) -> None:
        """Send a table to every agent, now and later ones."""

    def close(self) -> None:
        """Give the channel back."""


class MemoryChannel:
    """The channel of a group within one process; it is the reducer's end itself.

    Example:
        >>> channel = MemoryChannel()
        >>> agent = channel.agent()
        >>> agent.send(LeaveMessage(agent="a", epoch_ms=0))
        >>> [message.agent for message in channel.receive(0.0)]
        ['a']
    """

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._messages: deque[SyncMessage | LeaveMessage] = deque(maxlen=_MAX_WAITING)
        self._agents: list[_MemoryAgent] = []
        self._last: GlobalTable | None = None

    def agent(self) -> AgentChannel:
        """Make an end for one more agent."""
        with self._arrived:
            agent = _MemoryAgent(self)
            if self._last is not None:
                agent.tables.append(self._last)
            self._agents.append(agent)
        return agent

    def last_table(self) -> GlobalTable | None:
        """Give the last table; see ``ReducerChannel``."""
        return self._last

    def receive(self, timeout_s: float) -> list[SyncMessage | LeaveMessage]:
        """Wait for messages; see ``ReducerChannel``."""
        with self._arrived:
            self._arrived.wait_for(lambda: bool(self._messages), timeout_s)
            messages = list(self._messages)
            self._messages.clear()
        return messages

    def broadcast(self, table: GlobalTable) -> None:
        """Send a table; see ``ReducerChannel``."""
        with self._arrived:
            self._last = table
            for agent in self._agents:
                agent.tables.append(table)

    def close(self) -> None:
        """Do nothing: it lives as long as its agents."""

    def _put(self, message: SyncMessage | LeaveMessage) -> None:
        with self._arrived:
            self._messages.append(message)
            self._arrived.notify_all()

    def _remove(self, agent: _MemoryAgent) -> None:
        with self._arrived:
            if agent in self._agents:
                self._agents.remove(agent)


class _MemoryAgent:
    def __init__(self, hub: MemoryChannel) -> None:
        self._hub = hub
        self.tables: deque[GlobalTable] = deque(maxlen=2)

    def send(self, message: SyncMessage | LeaveMessage) -> None:
        self._hub._put(message)

    def receive(self) -> list[GlobalTable]:
        tables = []
        while self.tables:
            tables.append(self.tables.popleft())
        return tables

    def close(self) -> None:
        self._hub._remove(self)
