"""Many cells side by side, one process per core; the same figures whatever their number."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import TypeVar

from partitioners.errors import InputError, RunError

Task = TypeVar("Task")
Result = TypeVar("Result")


class Sweeper:
    """Processes that run functions on tasks; a context, at whose end they are gone.

    Args:
        jobs: Processes; 1 is this one alone.

    Raises:
        InputError: ``jobs`` is not from 1 to 1,000.

    Example:
        >>> with Sweeper(1) as sweeper:
        ...     sweeper.run(abs, [-1, 2, -3])
        [1, 2, 3]
    """

    def __init__(self, jobs: int) -> None:
        if not 1 <= jobs <= 1_000:
            raise InputError(f"jobs must be from 1 to 1,000, not {jobs}")
        self.jobs = jobs
        self._pool: ProcessPoolExecutor | None = None
        self._others: set[BaseProcess] = set()

    def __enter__(self) -> Sweeper:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is None:
            return
        if error is not None:
            # What still runs is for nothing, and may run for minutes.
            for child in set(multiprocessing.active_children()) - self._others:
                child.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None

    def run(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        on_done: Callable[[Result], None] = lambda _result: None,
    ) -> list[Result]:
        """Run a function on many tasks.

        Args:
            function: Of a module, such as ``simulate``.
            tasks: Its arguments; neighbours that share a stream find it made.
            on_done: Called in this process with each result when it is there.

        Returns:
            The results, in the order of the tasks.

        Raises:
            RunError: A process died.
        """
        if self.jobs == 1 or len(tasks) < 2:
            results = []
            for task in tasks:
                results.append(function(task))
                on_done(results[-1])
            return results
        if self._pool is None:
            # Not forked: pyarrow's threads do not survive that.
            context = multiprocessing.get_context("spawn")
            self._others = set(multiprocessing.active_children())
            self._pool = ProcessPoolExecutor(self.jobs, mp_context=context)
        futures: list[Future[Result]] = [self._pool.submit(function, task) for task in tasks]
        try:
            for future in as_completed(futures):
                on_done(future.result())
        except BrokenProcessPool as error:
            raise RunError(
                "a process of the simulation died, probably of too little memory: use --jobs 1, "
                "or fewer --records"
            ) from error
        return [future.result() for future in futures]


def sweep(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    jobs: int = 1,
    on_done: Callable[[Result], None] = lambda _result: None,
) -> list[Result]:
    """Run a function on many tasks, with processes of its own; see ``Sweeper``.

    Args:
        function: See ``Sweeper.run``.
        tasks: See there.
        jobs: Processes; 1 is this one alone.
        on_done: See there.

    Returns:
        The results, in the order of the tasks.
    """
    with Sweeper(min(jobs, max(len(tasks), 1))) as sweeper:
        return sweeper.run(function, tasks, on_done)
