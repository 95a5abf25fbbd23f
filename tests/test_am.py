from __future__ import annotations

import numpy as np

from partitioners import create


def test_new_keys_go_where_the_fewest_keys_are() -> None:
    am = create("am", 2)
    out = np.zeros(6, np.int32)
    am.select(  # type: ignore[attr-defined]
        np.array([[0, 1]] * 6, np.int32),
        np.array([1, 1, 1, 2, 3, 1], np.uint64),
        np.zeros(6, np.int64),
        out,
    )
    assert out.tolist() == [0, 0, 0, 1, 0, 0]
    assert am.cardinalities.tolist() == [2.0, 1.0]  # type: ignore[attr-defined]


def test_a_key_may_move_when_no_live_pane_holds_it() -> None:
    # Window of 3 panes of 10. Key 1 is on partition 0, keys 2 and 3 come to 1 and 0.
    #   pane    0    1    2    3    4
    #   key 1   0                    1   gone after pane 2: partition 0 has key 3, 1 has none
    #   key 3             0    0    0
    am = create("am", 2, window_ms=30, slide_ms=10)
    out = np.zeros(7, np.int32)
    am.select(  # type: ignore[attr-defined]
        np.array([[0, 1]] * 7, np.int32),
        np.array([1, 2, 3, 3, 1, 3, 1], np.uint64),
        np.array([5, 5, 25, 35, 35, 45, 45], np.int64),
        out,
    )
    assert out.tolist() == [0, 1, 0, 0, 1, 0, 1]
