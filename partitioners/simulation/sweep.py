"""Many cells side by side, one process per core; the same figures whatever their number."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from partitioners.errors import InputError, RunError

Task = TypeVar("Task")
Result = TypeVar("Result")


def sweep(
    run: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    jobs: int = 1,
    on_done: Callable[[Result], None] = lambda _result: None,
) -> list[Result]:
    """Run a function on many tasks.

    Args:
        run: A function of a module, such as ``simulate``.
        tasks: Its arguments; neighbours that share a stream find it made.
        jobs: Processes; 1 is this one alone.
        on_done: Called in this process with each result when it is there, for a progress bar.

    Returns:
        The results, in the order of the tasks.

    Raises:
        InputError: ``jobs`` is below 1.
        RunError: A process died.

    Example:
        >>> sweep(abs, [-1, 2, -3])
        [1, 2, 3]
    """
    if jobs < 1:
        raise InputError(f"jobs must be 1 or more, not {jobs}")
    if jobs == 1 or len(tasks) < 2:
        results = []
        for task in tasks:
            results.append(run(task))
            on_done(results[-1])
        return results
    # Not forked: pyarrow's threads do not survive that.
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)), mp_context=multiprocessing.get_context("spawn")
    )
    try:
        futures: list[Future[Result]] = [pool.submit(run, task) for task in tasks]
        for future in as_completed(futures):
            on_done(future.result())
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise RunError(
            "a process of the simulation died, probably of too little memory: use --jobs 1, or "
            "fewer --records"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
