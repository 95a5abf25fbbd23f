import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.aggregates import Aggregates
from pipelines.ring import Runs
from pipelines.top import key_ranks, top_of_windows


def runs_of(matrix: np.ndarray) -> Runs:
    """Runs of one window each; matrix[window, key] is a count."""
    window, key = np.nonzero(matrix)
    value = matrix[window, key][None, :]
    return Runs(window, window + 1, key, value, np.ones(len(window), dtype=bool))


# A busy machine may take long for 300 windows in plain Python.
@settings(deadline=None)
@given(
    st.integers(1, 300),
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 2**32),
)
def test_top_equals_a_sort_of_every_window(
    num_windows: int, num_keys: int, k: int, largest: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    matrix = random.integers(0, largest + 1, (num_windows, num_keys))
    matrix[:, random.random(num_keys) < 0.3] += 3
    names: list[bytes | None] = [b"%03d" % i for i in range(num_keys)]
    names[-1] = None
    keys = pa.array(names, type=pa.binary())
    top = top_of_windows(runs_of(matrix), keys, Aggregates(), k)
    found = list(zip(top.start.tolist(), top.key.tolist(), top.value[0].tolist(), strict=True))
    expected = [
        (window, key, int(matrix[window, key]))
        for window in range(num_windows)
        for key in sorted(
            np.flatnonzero(matrix[window]).tolist(),
            key=lambda key: (-matrix[window, key], names[key] is not None, names[key] or b""),
        )[:k]
    ]
    assert found == expected


def test_null_comes_before_the_empty_key_and_bytes_decide() -> None:
    keys = pa.array([b"b", b"", None, b"\xff", b"a\x00"], type=pa.binary())
    assert key_ranks(keys).tolist() == [3, 1, 0, 4, 2]
