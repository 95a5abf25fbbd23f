"""A state dataclass as named arrays, for snapshots."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt


def flatten(state: Any, prefix: str = "") -> dict[str, npt.NDArray[Any]]:
    """List the arrays of a state dataclass, those of nested ones under dotted names."""
    if state is None:
        return {}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if isinstance(value, np.ndarray):
            arrays[prefix + field.name] = value
        else:
            arrays |= flatten(value, f"{prefix}{field.name}.")
    return arrays


def put_back(state: Any, arrays: dict[str, npt.NDArray[Any]], prefix: str) -> None:
    """Give a state dataclass copies of the arrays that ``flatten`` listed."""
    if state is None:
        return
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if isinstance(value, np.ndarray):
            setattr(state, field.name, np.ascontiguousarray(arrays[prefix + field.name]).copy())
        else:
            put_back(value, arrays, f"{prefix}{field.name}.")
