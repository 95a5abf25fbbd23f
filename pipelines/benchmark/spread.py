"""How far keys are spread over partitions, counted exactly while a stream goes by."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

_ODD = np.uint64(0x9E3779B97F4A7C15)


class DistinctByGroup:
    """Counts distinct words in each group, without an object for each word.

    New words wait until there are as many as were kept; then all are sorted once, so a word costs
    O(log n) amortised and memory is at most twice what is distinct.
    """

    def __init__(self) -> None:
        self._words = np.empty(0, np.uint64)
        self._groups = np.empty(0, np.int64)
        self._waiting: list[tuple[UInt64s, Int64s]] = []
        self._num_waiting = 0

    def add(self, words: UInt64s, groups: Int64s) -> None:
        """Add a word to a group, many at once.

        Args:
            words: `uint64[n]`.
            groups: `int64[n]`.
        """
        # The same word in two groups counts in both: the group is mixed into it.
        self._waiting.append((_mixed(words, groups.astype(np.uint64)), groups))
        self._num_waiting += len(words)
        if self._num_waiting > max(len(self._words), 1 << 16):
            self._merge()

    def _merge(self) -> None:
        words = np.concatenate([self._words, *(word for word, _ in self._waiting)])
        groups = np.concatenate([self._groups, *(group for _, group in self._waiting)])
        self._words, index = np.unique(words, return_index=True)
        self._groups = groups[index]
        self._waiting, self._num_waiting = [], 0

    def counts(self) -> tuple[Int64s, Int64s]:
        """Give the groups in rising order, and the distinct words in each."""
        self._merge()
        groups, counts = np.unique(self._groups, return_counts=True)
        return groups, counts.astype(np.int64)

    def drop_below(self, group: int) -> None:
        """Forget all groups below one."""
        self._merge()
        kept = self._groups >= group
        self._words, self._groups = self._words[kept], self._groups[kept]


class Spread:
    """Replication factor and fragmentation of a routed stream.

    Null keys ask for no grouping and are left out.

    Args:
        window_ms: Fragmentation is the mean over tumbling windows of this size.
        lateness_ms: A window is counted when time is past its end by this much.

    Example:
        >>> spread = Spread(window_ms=10, lateness_ms=0)
        >>> keys = np.array([7, 7, 7, 8], dtype=np.uint64)
        >>> spread.add(keys, np.array([0, 1, 2, 0]), np.array([1, 2, 11, 12]))
        >>> spread.replication_factor, spread.fragmentation
        (2.0, 1.5)
    """

    def __init__(self, *, window_ms: int, lateness_ms: int) -> None:
        self.window_ms = window_ms
        self.lateness_ms = lateness_ms
        self._pairs = DistinctByGroup()
        self._keys = DistinctByGroup()
        self._window_pairs = DistinctByGroup()
        self._window_keys = DistinctByGroup()
        self._next_window: int | None = None
        self._latest_ms = 0
        self._ratio_sum = 0.0
        self._num_windows = 0

    def add(
        self,
        key_hashes: UInt64s,
        partitions: npt.NDArray[np.signedinteger],
        timestamps_ms: Int64s,
    ) -> None:
        """Count records.

        Args:
            key_hashes: `uint64[n]`, without null keys.
            partitions: Where each record went.
            timestamps_ms: Event times.
        """
        if not len(key_hashes):
            return
        pairs = _mixed(key_hashes, partitions.astype(np.uint64))
        everything = np.zeros(len(pairs), np.int64)
        self._pairs.add(pairs, everything)
        self._keys.add(key_hashes, everything)
        windows = timestamps_ms // self.window_ms
        if self._next_window is None:
            self._latest_ms = int(timestamps_ms.max())
            # Records before this one may still come, as late as the lateness allows.
            first = int(timestamps_ms.min()) - self.lateness_ms
            self._next_window = first // self.window_ms
        open_ones = windows >= self._next_window
        self._window_pairs.add(pairs[open_ones], windows[open_ones])
        self._window_keys.add(key_hashes[open_ones], windows[open_ones])
        self._latest_ms = max(self._latest_ms, int(timestamps_ms.max()))
        self._close_below((self._latest_ms - self.lateness_ms) // self.window_ms)

    def _close_below(self, window: int) -> None:
        if self._next_window is None or window <= self._next_window:
            return
        windows, pairs = self._window_pairs.counts()
        _, keys = self._window_keys.counts()
        closed = windows < window
        self._ratio_sum += float((pairs[closed] / keys[closed]).sum())
        self._num_windows += int(closed.sum())
        self._window_pairs.drop_below(window)
        self._window_keys.drop_below(window)
        self._next_window = window

    @property
    def replication_factor(self) -> float:
        """Distinct pairs of key and partition over distinct keys; 0 without keys."""
        _, pairs = self._pairs.counts()
        _, keys = self._keys.counts()
        return float(pairs[0] / keys[0]) if len(keys) else 0.0

    @property
    def fragmentation(self) -> float:
        """The replication factor within a window, mean over windows; 0 without keys."""
        windows, pairs = self._window_pairs.counts()
        _, keys = self._window_keys.counts()
        total = self._ratio_sum + float((pairs / keys).sum())
        return total / (self._num_windows + len(windows)) if total else 0.0


def _mixed(words: UInt64s, salt: UInt64s) -> UInt64s:
    """Give a word that depends on both, spread over 64 bits (splitmix64's finaliser)."""
    mixed = words ^ ((salt + np.uint64(1)) * _ODD)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)
