"""The protocol of a partitioner: what an algorithm writes, and what every caller may rely on.

An algorithm writes a frozen config, a state of NumPy arrays, and ``route``. The base adds keys of
every kind, null keys, scalar calls, snapshots and pickling, in terms of ``route``; so one record at
a time, one batch, and any cutting of a batch decide the same.

A partitioner belongs to one producer and to one thread at a time. Several producers agree on the
partitions a key may use, for these follow from key and seed alone; loads are each one's own.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from time import time_ns
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from mmh3 import hash64

from partitioners import hashing
from partitioners._checks import (
    bytes_of_key,
    require_length,
    require_time,
    weights_as_loads,
    with_arrays_checked,
    with_choices_checked,
)
from partitioners._jit import ScalarKernel, handles
from partitioners._state_arrays import flatten, put_back
from partitioners.config import ChoiceConfig, Config
from partitioners.errors import InputError, KeyspreadError
from partitioners.hashing import HashFunction, Key, Keys

KeyHashes: TypeAlias = npt.NDArray[np.uint64]
TimestampsMs: TypeAlias = npt.NDArray[np.int64]
Partitions: TypeAlias = npt.NDArray[np.int32]
Loads: TypeAlias = npt.NDArray[np.float64]
Snapshot: TypeAlias = dict[str, Any]

MAX_PARTITIONS = 1 << 16
BLOCK_RECORDS = 16_384
"""Records hashed at a time: 128 kB of key hashes, which stay in the second-level cache."""

NO_WEIGHTS: Loads = np.empty(0, np.float64)
"""What kernels get for ``weights=None``: every record has load 1."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traits:
    """What holds for an algorithm, for callers and for the contract tests.

    Attributes:
        splits_keys: Records of one key may go to several partitions: no order per key, no
            compaction by key, results must be merged.
        needs_batch: Decides well only after ``fit`` with the keys to come.
        uses_time: Event time matters; without timestamps the wall clock of the call is used.
        stochastic: Draws random numbers (seeded, part of the snapshot).
    """

    splits_keys: bool
    needs_batch: bool = False
    uses_time: bool = False
    stochastic: bool = False


class Partitioner(ABC):
    """Chooses the partition of each record.

    Args:
        num_partitions: Partitions there are, 1 to ``MAX_PARTITIONS``.
        config: Options; None for the defaults.

    Raises:
        InputError: ``num_partitions`` is out of range or ``config`` is of another algorithm.
    """

    name: ClassVar[str]
    config_type: ClassVar[type[Config]]
    traits: Traits
    config: Config  # algorithms annotate both anew with their own type
    _state: Any
    hash_function: HashFunction = "murmur3"
    scalar_kernel: ScalarKernel | None = None
    _hash_one: Callable[[bytes], int] | None = None  # key to signed number; None: murmur3
    _no_time: int | None = None  # what `_entry_now` takes: None where it reads the clock

    def __init__(self, num_partitions: int, config: Config | None = None) -> None:
        if (
            isinstance(num_partitions, bool)
            or not isinstance(num_partitions, int | np.integer)
            or not 1 <= num_partitions <= MAX_PARTITIONS
        ):
            raise InputError(
                f"num_partitions must be a whole number from 1 to {MAX_PARTITIONS}, "
                f"not {num_partitions!r}"
            )
        config = self.config_type() if config is None else config
        if type(config) is not self.config_type:
            raise InputError(
                f"{self.name} takes a {self.config_type.__name__}, not a {type(config).__name__}"
            )
        self._num_partitions = int(num_partitions)
        self.config = config
        self._null_cursor = 0
        self._handles = handles()
        self._one_hash = np.zeros(1, np.uint64)
        self._one_time = np.zeros(1, np.int64)
        self._one_out = np.zeros(1, np.int32)
        self._state = self._new_state()
        self._bind()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "route" in vars(cls):
            cls.route = with_arrays_checked(cls.route)  # type: ignore[method-assign]
        own_select = vars(cls).get("select")
        if own_select is not None:
            cls.select = with_choices_checked(own_select)  # type: ignore[attr-defined]

    # What an algorithm writes ---------------------------------------------------------------------

    @abstractmethod
    def route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose partitions for records in their order, and learn from them.

        Args:
            key_hashes: ``uint64[n]`` from ``hashing.hash_keys``.
            timestamps_ms: ``int64[n]``, event time; not read unless ``traits.uses_time``.
            out: ``int32[n]`` to fill.
            weights: ``float64[n]``, load of each record, 0 or more; None: 1 each.

        Raises:
            InputError: The arrays differ in length, or are of another kind; ``out`` is read-only.
        """

    def _new_state(self) -> Any:
        """Make the state: a dataclass of arrays (or of such dataclasses), or None."""
        return None

    def _bind(self) -> None:  # noqa: B027 - not every algorithm has state
        """Set ``_handles`` to the state's arrays; called when these were made or replaced."""

    def _make_room(self) -> None:
        """Enlarge the tables of the state, then ``_bind``; called when a kernel asks for it."""
        raise NotImplementedError(f"{self.name} has no tables that grow")

    def _entry(self, key_hash: int, timestamp_ms: int | None, address: int) -> int:
        """Route one record of load 1: by ``scalar_kernel`` if there is one, else by ``route``.

        The kernel takes this method's place, so that the second call goes to compiled code.

        Args:
            key_hash: The key hash as a *signed* 64-bit number, which is what compiled code takes
                fastest.
            timestamp_ms: Event time; None: the wall clock.
            address: Address of ``_handles``.

        Returns:
            The partition; negative: see ``_finish_one``.
        """
        if self.scalar_kernel is None:
            return self._route_alone(key_hash, timestamp_ms)
        self._entry = self.scalar_kernel.entry()  # type: ignore[method-assign, assignment]
        return self._entry(key_hash, timestamp_ms, address)

    def _entry_now(self, key_hash: int, timestamp_ms: int | None, address: int) -> int:
        """Do as ``_entry`` where the caller gave no time: ``timestamp_ms`` is ``_no_time``."""
        if not self.traits.uses_time:
            timestamp_ms = self._no_time = 0
        if self.scalar_kernel is None:
            return self._entry(key_hash, timestamp_ms, address)
        kernel = self.scalar_kernel.entry(reads_clock=self._no_time is None)
        self._entry_now = kernel  # type: ignore[method-assign, assignment]
        return kernel(key_hash, timestamp_ms, address)

    def _finish_one(self, partition: int, key_hash: int, timestamp_ms: int | None) -> int:  # noqa: ARG002
        """Do what a kernel asked for by a negative partition, and give the record's."""
        self._make_room()
        return ~partition

    def _route_alone(self, key_hash: int, timestamp_ms: int | None) -> int:
        self._one_hash[0] = key_hash & 0xFFFFFFFFFFFFFFFF
        self._one_time[0] = time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        self.route(self._one_hash, self._one_time, self._one_out)
        return self._one_out.item()

    # What callers use -----------------------------------------------------------------------------

    @property
    def num_partitions(self) -> int:
        """Number of partitions."""
        return self._num_partitions

    @property
    def state_bytes(self) -> int:
        """Bytes of the state's arrays, now."""
        return sum(array.nbytes for array in flatten(self._state).values())

    def partition(self, key: Key, timestamp_ms: int | None = None) -> int:
        """Choose the partition of one record.

        Args:
            key: Bytes, text (hashed as UTF-8), or None: no grouping asked, so spread evenly.
            timestamp_ms: Event time; None: the wall clock, where time matters.

        Returns:
            The partition, 0 to ``num_partitions - 1``.

        Raises:
            InputError: The key is neither bytes, text nor None, or the time no int64.

        Example:
            >>> from partitioners import create
            >>> create("key_hash", 12).partition(b"100:48069")
            9
        """
        if type(key) is not bytes:
            if key is None:
                return self._next_null()
            key = bytes_of_key(key)
        # Written out for murmur3: one more call would cost a tenth of the time there is.
        key_hash = hash64(key)[0] if self._hash_one is None else self._hash_one(key)
        if timestamp_ms is None:
            partition = self._entry_now(key_hash, self._no_time, self._address)
        else:
            try:
                partition = self._entry(key_hash, timestamp_ms, self._address)
            except (TypeError, ValueError, OverflowError) as error:
                require_time(timestamp_ms, error)
                raise
        if partition < 0:
            return self._finish_one(partition, key_hash, timestamp_ms)
        return partition

    def partition_batch(
        self,
        keys: Keys,
        timestamps_ms: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
    ) -> Partitions:
        """Choose the partitions of many records, in their order.

        Args:
            keys: A sequence of bytes, str and None, or Arrow strings or binaries in any form; see
                ``hashing.hash_keys``. A null key goes round robin and leaves the state alone.
            timestamps_ms: Event times, n of them; None: the wall clock of this call, where time
                matters.
            weights: Load of each record, finite and 0 or more; None: 1 each.

        Returns:
            ``int32[n]``.

        Raises:
            InputError: Keys, timestamps or weights of another type or number, or out of range.
        """
        chunks = hashing.key_chunks(keys)
        num_records = sum(len(chunk) for chunk in chunks)
        times = self._times(timestamps_ms, num_records)
        loads = None
        if weights is not None:
            loads = weights_as_loads(weights)
            require_length("weights", loads, num_records)
        out = np.empty(num_records, np.int32)
        position = 0
        for chunk in chunks:
            for start in range(0, len(chunk), self._block_records(chunk)):
                block = chunk.slice(start, self._block_records(chunk))
                rows = slice(position, position + len(block))
                self._route_block(
                    block, times[rows], out[rows], None if loads is None else loads[rows]
                )
                position = rows.stop
        return out

    def partition_micro_batch(
        self,
        keys: Keys,
        timestamps_ms: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
    ) -> Partitions:
        """Choose the partitions of records that are a batch of their own, such as one interval's.

        The same as ``partition_batch``, but for algorithms that plan each batch as a whole.

        Args:
            keys: See ``partition_batch``.
            timestamps_ms: See there.
            weights: See there.

        Returns:
            ``int32[n]``.

        Raises:
            InputError: See there.
        """
        return self.partition_batch(keys, timestamps_ms, weights)

    def snapshot(self) -> Snapshot:
        """Copy the state out.

        Returns:
            A dict of plain values and arrays, which may be pickled; later routing leaves it alone.
        """
        arrays = {name: array.copy() for name, array in flatten(self._state).items()}
        return {
            "name": self.name,
            "num_partitions": self._num_partitions,
            "options": dataclasses.asdict(self.config),
            "null_cursor": self._null_cursor,
            "arrays": arrays,
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Put a state back; what follows is routed as it was after ``snapshot``.

        Args:
            snapshot: From a partitioner of the same name, partitions and options.

        Raises:
            InputError: It is of another name, number of partitions or options, or not a whole
                snapshot; the state stays as it was.
        """
        try:
            state, null_cursor = self._state_of(snapshot)
        except KeyspreadError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"this is no whole snapshot of {self.name} ({error!r}); give what snapshot() gave"
            ) from error
        self._null_cursor = null_cursor
        self._state = state
        self._bind()

    def _state_of(self, snapshot: Snapshot) -> tuple[Any, int]:
        """Read a snapshot: the state, and where the null keys are."""
        made = {
            "name": self.name,
            "num_partitions": self._num_partitions,
            "options": dataclasses.asdict(self.config),
        }
        for field, own in made.items():
            if snapshot.get(field) != own:
                raise InputError(
                    f"the snapshot has {field} {snapshot.get(field)!r} but this partitioner "
                    f"{own!r}; restore it into one made as the first was"
                )
        state = self._new_state()
        arrays = flatten(state)
        if set(arrays) != set(snapshot["arrays"]):
            raise InputError(
                "the snapshot is of another version: its arrays have other names; take a new one"
            )
        for name, own in arrays.items():
            given = np.asarray(snapshot["arrays"][name])
            if (given.dtype, given.ndim) != (own.dtype, own.ndim):
                raise ValueError(f"{name} is {given.ndim}-dimensional {given.dtype}")
        put_back(state, snapshot["arrays"], "")
        return state, int(snapshot["null_cursor"]) % self._num_partitions

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._num_partitions, self.config, self.snapshot())

    def __repr__(self) -> str:
        options = ", ".join(
            f"{field.name}={getattr(self.config, field.name)!r}"
            for field in dataclasses.fields(self.config)
        )
        return f"{type(self).__name__}({self._num_partitions}, {options})"

    # Below: the base's own ------------------------------------------------------------------------

    @property
    def _handles(self) -> npt.NDArray[np.int64]:
        """Where the state's arrays are, for kernels; an algorithm sets it in ``_bind``."""
        return self._packed

    @_handles.setter
    def _handles(self, packed: npt.NDArray[np.int64]) -> None:
        self._packed = packed
        self._address: int = packed.ctypes.data

    def _block_records(self, chunk: Any) -> int:
        # A dictionary is hashed once per block, so its array stays whole.
        return len(chunk) if hasattr(chunk, "dictionary") else BLOCK_RECORDS

    def _route_block(
        self, block: Any, times: TimestampsMs, out: Partitions, loads: Loads | None
    ) -> None:
        key_hashes = np.empty(len(block), np.uint64)
        hashing.hash_chunk(block, key_hashes, 0, self.hash_function)
        if not hashing.has_nulls(block):
            self.route(key_hashes, times, out, loads)
            return
        is_null = hashing.null_mask(block)
        keyed = ~is_null
        routed = np.empty(int(keyed.sum()), np.int32)
        keyed_loads = None if loads is None else loads[keyed]
        self.route(key_hashes[keyed], times[keyed], routed, keyed_loads)
        out[keyed] = routed
        num_nulls = len(block) - len(routed)
        steps = self._null_cursor + np.arange(num_nulls)
        out[is_null] = steps % self._num_partitions
        self._null_cursor = (self._null_cursor + num_nulls) % self._num_partitions

    def _next_null(self) -> int:
        partition = self._null_cursor
        self._null_cursor = (partition + 1) % self._num_partitions
        return partition

    def _times(self, timestamps_ms: npt.ArrayLike | None, num_records: int) -> TimestampsMs:
        if timestamps_ms is None:
            if not self.traits.uses_time:
                return np.zeros(num_records, np.int64)
            return np.full(num_records, time_ns() // 1_000_000, np.int64)
        times = np.asarray(timestamps_ms)
        if times.dtype.kind == "M":
            if np.isnat(times).any():
                raise InputError("timestamps_ms has gaps (NaT): give each record a time")
            times = times.astype("datetime64[ms]")
        elif times.dtype.kind not in "iu" and times.size:
            raise InputError(
                f"timestamps_ms are whole milliseconds or datetime64, not {times.dtype}"
            )
        elif times.dtype == np.uint64 and times.size:
            require_time(int(times.max()))
        whole = np.ascontiguousarray(times.astype(np.int64, copy=False))
        require_length("timestamps_ms", whole, num_records)
        return whole


class ChoicePartitioner(Partitioner):
    """A partitioner that asks two questions: which partitions a key may use, and which takes it.

    ``candidates`` answers the first from key and seed alone, ``select`` the second by load or by
    what a partition has seen. ``route`` is the one after the other; algorithms fuse both in one
    kernel, and the contract tests hold the two ways together.
    """

    @property
    @abstractmethod
    def num_choices(self) -> int:
        """Columns of ``candidates``: d."""

    @abstractmethod
    def select(
        self,
        choices: npt.NDArray[np.int32],
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose among given partitions, and learn from it; any other hash scheme may give them.

        Args:
            choices: ``int32[n, d]``, partitions each record may use.
            key_hashes: ``uint64[n]``; says which records have the same key.
            timestamps_ms: ``int64[n]``, event time; not read unless ``traits.uses_time``.
            out: ``int32[n]`` to fill.
            weights: ``float64[n]``, load of each record; None: 1 each.

        Raises:
            InputError: As ``route``; or a choice is no partition.
        """

    def candidates(self, key_hashes: KeyHashes) -> npt.NDArray[np.int32]:
        """Say which partitions each key may use.

        Args:
            key_hashes: ``uint64[n]``.

        Returns:
            ``int32[n, num_choices]``; see ``hashing.candidates``.
        """
        config = self.config
        assert isinstance(config, ChoiceConfig)
        return hashing.candidates(
            key_hashes,
            self.num_choices,
            self._num_partitions,
            config.seed,
            distinct=config.distinct,
        )

    def route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose partitions: ``candidates``, then ``select``. See ``Partitioner.route``."""
        for start in range(0, len(key_hashes), BLOCK_RECORDS):
            rows = slice(start, start + BLOCK_RECORDS)
            self.select(
                self.candidates(key_hashes[rows]),
                key_hashes[rows],
                timestamps_ms[rows],
                out[rows],
                None if weights is None else weights[rows],
            )


def choices_in_use(num_choices: int, num_partitions: int, *, distinct: bool) -> int:
    """Say how many candidates a key has: distinct ones cannot outnumber the partitions."""
    return min(num_choices, num_partitions) if distinct else num_choices


def _rebuild(
    kind: type[Partitioner], num_partitions: int, config: Config, snapshot: Snapshot
) -> Partitioner:
    partitioner = kind(num_partitions, config)
    partitioner.restore(snapshot)
    return partitioner
