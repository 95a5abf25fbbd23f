"""What agents and the Q-table reducer say to each other, and its form on the wire.

An agent sends ``SyncMessage`` at the end of an interval and ``LeaveMessage`` when it closes; the
reducer broadcasts ``GlobalTable``. On the wire a message is

    b"KSDL" | version, uint16 | length of the head, uint32 | head, JSON | arrays, little-endian

The head names the kind, the group, the number of partitions and the length of every array. A
reader takes only its own version, group and number of partitions, and only sound numbers.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from partitioners.dalton.state import LOWEST_Q
from partitioners.errors import InputError

MAGIC = b"KSDL"
VERSION = 1
_PREFIX = struct.Struct("<4sHI")
HIGHEST_Q = 1.0


@dataclass(frozen=True, kw_only=True)
class SyncMessage:
    """What one agent learned, and what it saw in the interval that ended.

    Attributes:
        agent: Name of the agent, one of its kind in the group.
        epoch_ms: When the agent joined; a later one of the same name takes its place.
        sequence: Number of the message since then.
        interval_ms: Length of the interval.
        wants_longer: The answer to the message before has not come yet.
        load: Load of all records of the interval.
        top_keys: ``uint64[<= n]``, the keys of most load.
        top_loads: ``float64[<= n]``, their true load.
        row_keys: ``uint64[r]``, keys of the local Q-table.
        row_loads: ``float64[r]``, their load.
        row_values: ``float64[r * n]``, their Q-values by partition.
    """

    kind: ClassVar[str] = "sync"
    agent: str
    epoch_ms: int
    sequence: int
    interval_ms: int
    wants_longer: bool
    load: float
    top_keys: npt.NDArray[np.uint64]
    top_loads: npt.NDArray[np.float64]
    row_keys: npt.NDArray[np.uint64]
    row_loads: npt.NDArray[np.float64]
    row_values: npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LeaveMessage:
    """An agent ends; rounds need not wait for it.

    Attributes:
        agent: Name of the agent.
        epoch_ms: When it joined.
    """

    kind: ClassVar[str] = "leave"
    agent: str
    epoch_ms: int


@dataclass(frozen=True, kw_only=True)
class GlobalTable:
    """What all agents together learned in a round.

    Attributes:
        epoch_ms: When the reducer started; tables of an earlier one are out of date.
        round_number: Number of the round since then.
        interval_ms: Length of the intervals to come.
        num_agents: Agents whose messages are in it.
        load: Load of all agents in one such interval (GL).
        keys: ``uint64[k]``, keys that are hot for all agents together.
        rounds_left: ``int64[k]``, rounds a key stays in the table, this one included.
        values: ``float64[k * n]``, their Q-values by partition.
    """

    kind: ClassVar[str] = "table"
    epoch_ms: int
    round_number: int
    interval_ms: int
    num_agents: int
    load: float
    keys: npt.NDArray[np.uint64]
    rounds_left: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


Message: TypeAlias = SyncMessage | LeaveMessage | GlobalTable
_KINDS: dict[str, type[Message]] = {
    kind.kind: kind for kind in (SyncMessage, LeaveMessage, GlobalTable)
}
_DTYPES = {
    "top_keys": "<u8",
    "row_keys": "<u8",
    "keys": "<u8",
    "rounds_left": "<i8",
    "top_loads": "<f8",
    "row_loads": "<f8",
    "row_values": "<f8",
    "values": "<f8",
}


class NotOursError(InputError):
    """A message that this reader must leave alone; the text says why."""


def encode(message: Message, group: str, num_partitions: int) -> bytes:
    """Write a message.

    Args:
        message: Any of the three.
        group: Producers that learn together.
        num_partitions: Partitions of their topic.

    Returns:
        The message on the wire.
    """
    head: dict[str, Any] = {"kind": message.kind, "group": group, "partitions": num_partitions}
    arrays: dict[str, int] = {}
    payload = []
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name in _DTYPES:
            arrays[field.name] = value.size
            payload.append(np.ascontiguousarray(value, _DTYPES[field.name]).tobytes())
        else:
            head[field.name] = value
    text = json.dumps(head | {"arrays": arrays}).encode()
    return b"".join([_PREFIX.pack(MAGIC, VERSION, len(text)), text, *payload])


def decode(raw: bytes, group: str, num_partitions: int) -> Message:
    """Read a message.

    Args:
        raw: The message on the wire.
        group: The reader's group.
        num_partitions: The reader's number of partitions.

    Returns:
        The message.

    Raises:
        NotOursError: It is of another version, group or number of partitions, or not sound.
    """
    if len(raw) < _PREFIX.size or raw[:4] != MAGIC:
        raise NotOursError("it is no message of dalton; give the group a topic of its own")
    _, version, head_bytes = _PREFIX.unpack_from(raw)
    if version != VERSION:
        raise NotOursError(
            f"it is of version {version} and this is version {VERSION}; "
            "run one release in all producers of a group"
        )
    try:
        head = json.loads(raw[_PREFIX.size : _PREFIX.size + head_bytes])
        if head["group"] != group:
            raise NotOursError(
                f'it is of group "{head["group"]}", not "{group}"; '
                "give every group topics of its own"
            )
        if head["partitions"] != num_partitions:
            raise NotOursError(
                f"it is for {head['partitions']} partitions, not {num_partitions}; "
                "restart the producers that still have the old number"
            )
        message = _build(head, raw[_PREFIX.size + head_bytes :])
        _require_sound(message, num_partitions)
    except NotOursError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotOursError(f"it is damaged ({error}); look who else writes there") from error
    return message


def _build(head: dict[str, Any], payload: bytes) -> Message:
    kind = _KINDS[head["kind"]]
    values: dict[str, Any] = {}
    position = 0
    for field in dataclasses.fields(kind):
        if field.name not in _DTYPES:
            values[field.name] = head[field.name]
            continue
        count = int(head["arrays"][field.name])
        array = np.frombuffer(payload, _DTYPES[field.name], count, position)
        values[field.name] = array.astype(array.dtype.newbyteorder("="))
        position += array.nbytes
    return kind(**values)


def _require_sound(message: Message, num_partitions: int) -> None:
    """Refuse numbers that no agent or reducer of ours can have sent."""
    if isinstance(message, LeaveMessage):
        sound = isinstance(message.agent, str) and isinstance(message.epoch_ms, int)
    elif isinstance(message, SyncMessage):
        sound = (
            isinstance(message.agent, str)
            and isinstance(message.epoch_ms, int)
            and isinstance(message.sequence, int)
            and _are_loads(message.top_loads, message.top_keys.size)
            and _are_loads(message.row_loads, message.row_keys.size)
            and _are_values(message.row_values, message.row_keys.size * num_partitions)
        )
    else:
        sound = (
            isinstance(message.epoch_ms, int)
            and isinstance(message.round_number, int)
            and isinstance(message.num_agents, int)
            and message.num_agents >= 1
            and message.rounds_left.size == message.keys.size
            and _are_values(message.values, message.keys.size * num_partitions)
        )
    if not isinstance(message, LeaveMessage):
        sound = sound and isinstance(message.interval_ms, int) and message.interval_ms >= 1
        sound = sound and 0.0 <= message.load < np.inf
    if not sound:
        raise NotOursError("its numbers are out of range; look who else writes there")


def _are_loads(loads: npt.NDArray[np.float64], count: int) -> bool:
    return loads.size == count and bool(np.all((loads >= 0.0) & np.isfinite(loads)))


def _are_values(values: npt.NDArray[np.float64], count: int) -> bool:
    return values.size == count and bool(np.all((values >= LOWEST_Q) & (values <= HIGHEST_Q)))
