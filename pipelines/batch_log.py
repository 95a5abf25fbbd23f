"""What each batch of a query did, one JSON file per batch beside the results.

Written by the driver when the batch's results are in the sink. It outlives the process, so a
resumed run still knows when the windows of its first life were out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = "_batches"


def merge_stretches(stretches: list[list[int]]) -> list[list[int]]:
    """Union of [start, end) pairs.

    Example:
        >>> merge_stretches([[5, 7], [1, 3], [2, 4]])
        [[1, 4], [5, 7]]
    """
    merged: list[list[int]] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


class BatchLog:
    """Reads and writes the batch files of a results folder."""

    def __init__(self, results_dir: Path) -> None:
        self.folder = results_dir / FOLDER

    def write(self, batch: dict[str, Any]) -> None:
        """Write one batch; one that is done again replaces its file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{batch['batch_id']:09d}.json"
        scratch = path.with_suffix(".tmp")
        scratch.write_text(json.dumps(batch) + "\n", encoding="utf-8")
        scratch.replace(path)

    def read(self) -> list[dict[str, Any]]:
        """All batches in order."""
        return [
            json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(self.folder.glob("*.json"))
        ]
