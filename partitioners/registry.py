"""The partitioners there are, by name, and the one way to make them."""

from __future__ import annotations

from typing import Any

from partitioners.am import AM
from partitioners.base import Partitioner
from partitioners.cam import CAM
from partitioners.cm import CM
from partitioners.config import make_config
from partitioners.d_choices import DChoices
from partitioners.dagreedy import DAGreedy
from partitioners.dalton import Dalton
from partitioners.errors import InputError, nearest
from partitioners.greedy import OffGreedy, OnGreedy
from partitioners.hot_fill import HotFill
from partitioners.key_groups import KeyGroups
from partitioners.key_hash import KeyHash
from partitioners.lm import LM
from partitioners.pkg import PKG
from partitioners.potc import PoTC
from partitioners.prompt import Prompt
from partitioners.shuffle import Shuffle
from partitioners.w_choices import WChoices

PARTITIONERS: dict[str, type[Partitioner]] = {
    "shuffle": Shuffle,
    "key_hash": KeyHash,
    "pkg": PKG,
    "potc": PoTC,
    "on_greedy": OnGreedy,
    "off_greedy": OffGreedy,
    "cm": CM,
    "am": AM,
    "cam": CAM,
    "lm": LM,
    "d_choices": DChoices,
    "w_choices": WChoices,
    "dalton": Dalton,
    "dagreedy": DAGreedy,
    "hot_fill": HotFill,
    "key_groups": KeyGroups,
    "prompt": Prompt,
}


def create(name: str, num_partitions: int, **options: Any) -> Partitioner:
    """Make a partitioner.

    Args:
        name: A key of ``PARTITIONERS``.
        num_partitions: Partitions of the topic.
        options: The algorithm's options; those of its config in ``docs/partitioners.md``.

    Returns:
        A new partitioner, with no load seen.

    Raises:
        InputError: An unknown name or option, or a value out of range.

    Example:
        >>> create("pkg", 8, d=3).config.d
        3
    """
    kind = PARTITIONERS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InputError(f'no partitioner is called "{name}"; {nearest(str(name), PARTITIONERS)}')
    return kind(num_partitions, make_config(kind.config_type, name, options))
