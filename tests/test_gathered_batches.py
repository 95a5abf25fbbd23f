"""Small Arrow batches are combined together: same rows, same order, same partials."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.combine import gathered


@settings(deadline=None)  # a busy machine
@given(st.lists(st.integers(0, 6), max_size=12), st.integers(1, 20), st.integers(1, 400))
def test_rows_stay_and_batches_end_when_they_are_full(
    sizes: list[int], max_rows: int, max_bytes: int
) -> None:
    edges = np.cumsum([0, *sizes])
    whole = pa.record_batch({"key": [f"k{i}".encode() for i in range(edges[-1])]})
    batches = [whole.slice(low, size) for low, size in zip(edges, sizes, strict=False)]
    found = list(gathered(batches, max_rows, max_bytes))
    assert [key for batch in found for key in batch["key"].to_pylist()] == whole["key"].to_pylist()
    assert all(batch.num_rows for batch in found)
    longest = max(sizes, default=0)
    for batch in found[:-1]:
        assert batch.num_rows >= max_rows or batch.nbytes >= max_bytes
    for batch in found:
        assert batch.num_rows < max_rows + longest
