"""Questions to an agent's state from outside the loops."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioners._jit import kernel
from partitioners.dalton.qtable import NO_ROW, find_row, oldest_pane
from partitioners.dalton.state import NUM_PARTITIONS, ROW_FIELDS, ROW_HOME, open_tables


@kernel
def key_split(key_hash: int, packed: npt.NDArray[np.int64]) -> int:
    """Count the partitions other than its home that hold a key in the window."""
    tables = open_tables(packed)
    row = find_row(tables, np.uint64(key_hash))
    if row == NO_ROW:
        return 0
    num_partitions = tables.options[NUM_PARTITIONS]
    away = 0
    for partition in range(num_partitions):
        held = tables.last_pane[row * num_partitions + partition] >= oldest_pane(tables)
        if held and partition != tables.rows[row * ROW_FIELDS + ROW_HOME]:
            away += 1
    return away
