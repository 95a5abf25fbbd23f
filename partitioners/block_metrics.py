"""What Prompt measures of a micro-batch cut into blocks: BSI, BCI, KSR, and MPI of the three.

Paper: Abdelhamid et al., "Prompt: Dynamic Data-Partitioning for Distributed Micro-batch Stream
Processing Systems", SIGMOD 2020, section 3.3, equations 2 to 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners.base import KeyHashes, Partitions
from partitioners.errors import InputError

THIRD = 1.0 / 3.0


def block_size_imbalance(block_sizes: npt.ArrayLike) -> float:
    """BSI, equation 2: by how many records (or how much load) the largest block exceeds the mean.

    Args:
        block_sizes: Size of each block, or of each bucket of the reduce stage (equation 3).

    Returns:
        Maximum less mean; 0 of no blocks.

    Example:
        >>> block_size_imbalance([4, 2, 3])
        1.0
    """
    return _over_mean(block_sizes)


def block_cardinality_imbalance(block_cardinalities: npt.ArrayLike) -> float:
    """BCI, equation 4: by how many distinct keys the richest block exceeds the mean.

    Args:
        block_cardinalities: Distinct keys in each block.

    Returns:
        Maximum less mean; 0 of no blocks.
    """
    return _over_mean(block_cardinalities)


def key_split_ratio(num_fragments: int, num_keys: int) -> float:
    """KSR, equation 5: fragments per key, 1 where no key is split.

    The text beside the equation has the ratio upside down; both have 1 for no splits.

    Args:
        num_fragments: Pairs of a key and a block that has records of it.
        num_keys: Distinct keys.

    Returns:
        The ratio; 1 of no keys.
    """
    return num_fragments / num_keys if num_keys else 1.0


@dataclass(frozen=True, kw_only=True)
class BlockMetrics:
    """The measures of one micro-batch.

    Attributes:
        bsi: Block size imbalance, in records or load.
        bci: Block cardinality imbalance, in keys.
        ksr: Key split ratio.
        sizes: Records or load of each block.
        cardinalities: Distinct keys of each block.
    """

    bsi: float
    bci: float
    ksr: float
    sizes: npt.NDArray[np.float64]
    cardinalities: npt.NDArray[np.int64]

    def mpi(self, p1: float = THIRD, p2: float = THIRD, p3: float = THIRD) -> float:
        """Weigh the three into one number, equation 6.

        Args:
            p1: Weight of BSI; 1 asks for shuffling.
            p2: Weight of BCI.
            p3: Weight of KSR; 1 asks for hashing.

        Returns:
            The partitioning imbalance.

        Raises:
            InputError: The weights do not sum to 1.
        """
        if abs(p1 + p2 + p3 - 1.0) > 1e-9:
            raise InputError(f"p1 + p2 + p3 must be 1, not {p1 + p2 + p3:g}")
        return p1 * self.bsi + p2 * self.bci + p3 * self.ksr


def measure_blocks(
    key_hashes: KeyHashes,
    partitions: Partitions,
    num_partitions: int,
    weights: npt.ArrayLike | None = None,
) -> BlockMetrics:
    """Measure how a micro-batch was cut, by whatever partitioner.

    Args:
        key_hashes: ``uint64[n]``.
        partitions: ``int32[n]``, block of each record.
        num_partitions: Number of blocks.
        weights: Load of each record; None: 1 each.

    Returns:
        The measures.

    Example:
        >>> blocks = measure_blocks(np.array([1, 1, 2, 3], np.uint64), np.array([0, 1, 0, 1]), 2)
        >>> blocks.bsi, blocks.bci, round(blocks.ksr, 3)
        (0.0, 0.0, 1.333)
    """
    keys, numbers = np.unique(key_hashes, return_inverse=True)
    blocks = np.asarray(partitions, np.int64)
    pairs = np.unique(numbers * np.int64(num_partitions) + blocks)
    cardinalities = np.bincount(pairs % num_partitions, minlength=num_partitions)
    loads = None if weights is None else np.asarray(weights, np.float64)
    sizes = np.bincount(blocks, loads, num_partitions).astype(np.float64)
    return BlockMetrics(
        bsi=block_size_imbalance(sizes),
        bci=block_cardinality_imbalance(cardinalities),
        ksr=key_split_ratio(len(pairs), len(keys)),
        sizes=sizes,
        cardinalities=cardinalities,
    )


def _over_mean(values: npt.ArrayLike) -> float:
    array = np.asarray(values, np.float64)
    return float(array.max() - array.mean()) if array.size else 0.0
