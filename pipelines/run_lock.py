"""A run's folders belong to one live process: the locks that say so, and survive its death."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

import psutil

from partitioners.errors import InputError

# How long the processes of a killed run may take to notice that it is gone.
LEFT_BEHIND_SECONDS = 20.0


class RunLock:
    """Holds ``run.lock`` in a run's folder while a process works on it.

    The operating system frees the lock when its holder dies, however it dies, so a killed run can
    be resumed at once. The file names the holder and the processes it started, each with its start
    time, for those who come later.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.lock"
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        file = self.path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = next(iter(_read(file)), "unknown")
            file.close()
            raise InputError(
                f"run {self.path.parent.name} is live (process {holder}): wait for it, or stop it "
                f"with `kill {holder}`, then resume it"
            ) from None
        _end_left_behind(_read(file))
        self._file = file
        self.note(os.getpid())
        return self

    def note(self, *pids: int) -> None:
        """Write down processes of this run.

        Args:
            pids: All of them, the holder first.
        """
        if self._file is None:
            return
        started = {str(pid): psutil.Process(pid).create_time() for pid in pids}
        self._file.seek(0)
        self._file.truncate()
        json.dump(started, self._file)
        self._file.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            self._file.close()
            self._file = None


class FolderLock:
    """Holds a folder for one process, by a lock on the folder itself, with no file in it.

    Where the block fails and left nothing in it, the folder goes, if it was made here.

    Args:
        path: The folder; made if it is not there.
        option: Where the user can name another.

    Raises:
        InputError: Another process holds it.
        OSError: It cannot be made or opened.
    """

    def __init__(self, path: Path, option: str) -> None:
        self.path = path
        self._option = option
        self._made = False
        self._descriptor = -1

    def __enter__(self) -> Self:
        while True:
            self._made = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._descriptor)
                raise InputError(
                    f"another run writes to {self.path}: wait for it, or name another folder with "
                    f"{self._option}"
                ) from None
            except OSError:  # a network file system that locks no folders
                return self
            # Its last holder may have removed it before it was locked here.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._descriptor), self.path.stat()):
                    return self
            os.close(self._descriptor)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and self._made:
            # Only if it is empty, that is.
            with contextlib.suppress(OSError):
                self.path.rmdir()
        os.close(self._descriptor)


def _read(file: TextIO) -> dict[str, float]:
    file.seek(0)
    try:
        content = json.loads(file.read() or "{}")
    except json.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}


def _end_left_behind(started: dict[str, float]) -> None:
    """Wait for the processes of a killed run, and end those that do not go by themselves."""
    alive = []
    for pid, create_time in started.items():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(pid))
            # A later process may have been given the same number.
            if process.create_time() == create_time:
                alive.append(process)
    _gone, alive = psutil.wait_procs(alive, timeout=LEFT_BEHIND_SECONDS)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=LEFT_BEHIND_SECONDS)
