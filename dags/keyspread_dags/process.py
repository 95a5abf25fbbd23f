"""A call of `keyspread` as a process of its own that does not outlive its task."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# `keyspread` stops Spark and removes topic and checkpoint; what hangs longer than that is killed.
STOP_SECONDS = 20.0

# Becomes the command by exec, having asked the kernel for SIGTERM (15) when its parent dies (1 is
# PR_SET_PDEATHSIG): not even kill -9 of a task leaves its run behind.
_DIE_WITH_PARENT = (
    "import ctypes,os,sys\n"
    "ctypes.CDLL(None).prctl(1, 15)\n"
    "if os.getppid() != int(sys.argv[1]): sys.exit(143)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)


@dataclass(frozen=True)
class Outcome:
    """How a call ended.

    Attributes:
        exit_code: 0 good, 1 the run failed, 2 something asked for is no good; more: a signal.
        said: The object on its stdout, empty if there was none.
    """

    exit_code: int
    said: dict[str, Any]

    @property
    def reason(self) -> str:
        """Why it failed, in a sentence."""
        error = self.said.get("error", {})
        return str(error.get("message", f"keyspread ended with exit code {self.exit_code}"))


class Call:
    """One call of a command that prints one JSON object.

    Args:
        command: The program and its arguments.
        folder: Where it runs.
        log: Takes each line of its stderr.
    """

    def __init__(self, command: Sequence[str], folder: Path, log: Callable[[str], None]) -> None:
        self._command = list(command)
        self._folder = folder
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def run(self) -> Outcome:
        """Run it to its end.

        Returns:
            Its exit code and its object.
        """
        command = self._command
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
            command += self._command
        with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
            with subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                cwd=self._folder,
                # A group of its own: a signal for the task's group is not for it, ours is.
                start_new_session=True,
            ) as process:
                self._process = process
                assert process.stderr is not None
                for line in process.stderr:
                    self._log(line.rstrip("\n"))
            self._process = None
            out.seek(0)
            return Outcome(process.returncode, _last_object(out.read()))

    def stop(self, patience_s: float = STOP_SECONDS) -> None:
        """End it with all its processes: asked first, then killed.

        Args:
            patience_s: How long it may take to clean up.
        """
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _last_object(text: str) -> dict[str, Any]:
    """Read the JSON object on the last line, if there is one."""
    lines = text.strip().splitlines()
    with contextlib.suppress(ValueError):
        found = json.loads(lines[-1]) if lines else {}
        if isinstance(found, dict):
            return found
    return {}
