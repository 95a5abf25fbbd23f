"""A run folder belongs to one live process: the lock that says so, and survives its death."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from partitioners.errors import InputError


class RunLock:
    """Holds ``run.lock`` in a run's folder while a process works on it.

    The operating system frees the lock when its holder dies, however it dies, so a killed run can
    be resumed at once. The file names the holder and the processes it started (the broker, the
    JVM), for those who come later.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.lock"
        self._file: TextIO | None = None
        self.left_behind: dict[str, int] = {}

    def __enter__(self) -> Self:
        file = self.path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(file)
            file.close()
            raise InputError(
                f"run {self.path.parent.name} is live (process {holder.get('pid', 'unknown')}): "
                "wait for it, or stop it with Ctrl-C or `kill`, then resume it"
            ) from None
        self.left_behind = {
            name: pid for name, pid in _read(file).items() if name != "pid" and isinstance(pid, int)
        }
        self._file = file
        self.note()
        return self

    def note(self, **processes: int) -> None:
        """Write the holder's process id, and those of the processes it started, to the file."""
        if self._file is None:
            return
        self._file.seek(0)
        self._file.truncate()
        json.dump({"pid": os.getpid(), **processes}, self._file)
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


def _read(file: TextIO) -> dict[str, object]:
    file.seek(0)
    try:
        content = json.loads(file.read() or "{}")
    except json.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}
