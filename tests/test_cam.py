from __future__ import annotations

import numpy as np

from partitioners import create


def test_new_keys_go_where_the_fewest_records_are() -> None:
    cam = create("cam", 2)
    out = np.zeros(6, np.int32)
    cam.select(  # type: ignore[attr-defined]
        np.array([[0, 1]] * 6, np.int32),
        np.array([1, 1, 1, 2, 3, 1], np.uint64),
        np.zeros(6, np.int64),
        out,
    )
    assert out.tolist() == [0, 0, 0, 1, 1, 0]
    assert cam.loads.tolist() == [4.0, 2.0]  # type: ignore[attr-defined]


def test_weights_are_the_load() -> None:
    cam = create("cam", 2)
    out = np.zeros(3, np.int32)
    cam.select(  # type: ignore[attr-defined]
        np.array([[0, 1]] * 3, np.int32),
        np.array([1, 2, 3], np.uint64),
        np.zeros(3, np.int64),
        out,
        np.array([1.0, 5.0, 1.0]),
    )
    assert out.tolist() == [0, 1, 0]
