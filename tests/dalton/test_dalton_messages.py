"""The wire: what goes out comes in, and what is not ours is left alone with a reason."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioners.dalton import GlobalTable, LeaveMessage, SyncMessage
from partitioners.dalton.messages import MAGIC, NotOursError, decode, encode

SYNC = SyncMessage(
    agent="a",
    epoch_ms=5,
    sequence=3,
    interval_ms=1_000,
    wants_longer=True,
    load=10.5,
    top_keys=np.array([1, (1 << 64) - 1], np.uint64),
    top_loads=np.array([6.0, 4.5]),
    row_keys=np.array([1], np.uint64),
    row_loads=np.array([6.0]),
    row_values=np.array([-2.0, 0.125, 0.5]),
)
TABLE = GlobalTable(
    epoch_ms=5,
    round_number=7,
    interval_ms=500,
    num_agents=2,
    load=20.0,
    keys=np.array([9], np.uint64),
    rounds_left=np.array([2]),
    values=np.array([0.0, -1.0, -2.0]),
)
LEAVE = LeaveMessage(agent="a", epoch_ms=5)


@pytest.mark.parametrize("message", [SYNC, TABLE, LEAVE], ids=lambda message: message.kind)
def test_a_message_survives_the_wire(message: SyncMessage | GlobalTable | LeaveMessage) -> None:
    back = decode(encode(message, "g", 3), "g", 3)
    assert type(back) is type(message)
    for field in dataclasses.fields(message):
        expected, actual = getattr(message, field.name), getattr(back, field.name)
        if isinstance(expected, np.ndarray):
            assert actual.dtype == expected.dtype
            assert actual.tolist() == expected.tolist()
            actual[:0] = 0  # writable, not a view of the wire
        else:
            assert actual == expected


RAW = encode(SYNC, "g", 3)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "no message of dalton"),
        (b'{"user": 1}', "no message of dalton"),
        (MAGIC + b"\x02\x00" + RAW[6:], "version 2 and this is version 1"),
        (encode(SYNC, "other", 3), 'group "other", not "g"'),
        (encode(SYNC, "g", 4), "4 partitions, not 3"),
        (RAW[:-8], "damaged"),
        (RAW[:20], "damaged"),
        (encode(dataclasses.replace(SYNC, load=float("nan")), "g", 3), "out of range"),
        (encode(dataclasses.replace(SYNC, top_loads=np.array([-1.0, 1])), "g", 3), "out of range"),
        (encode(dataclasses.replace(TABLE, values=np.array([0, 1e9, 0])), "g", 3), "out of range"),
        (encode(dataclasses.replace(TABLE, keys=np.empty(0, np.uint64)), "g", 3), "out of range"),
        (encode(dataclasses.replace(TABLE, interval_ms=0), "g", 3), "out of range"),
    ],
)
def test_what_is_not_ours_is_left_alone(raw: bytes, reason: str) -> None:
    with pytest.raises(NotOursError, match=reason):
        decode(raw, "g", 3)


@given(st.binary(max_size=200), st.integers(0, len(RAW)), st.booleans())
def test_no_bytes_do_harm(noise: bytes, cut: int, replace: bool) -> None:
    raw = RAW[:cut] + noise + (RAW[cut + len(noise) :] if replace else RAW[cut:])
    try:
        message = decode(raw, "g", 3)
    except NotOursError:
        return
    if isinstance(message, SyncMessage):
        assert message.row_values.size == 3 * message.row_keys.size
