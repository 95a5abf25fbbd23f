"""A call of `keyspread` as a process of its own that does not outlive its task."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# In this time `keyspread` stops Spark and removes topic and checkpoint; what hangs is killed.
STOP_SECONDS = 20
_GUARD = Path(__file__).with_name("guard.py")


@dataclass(frozen=True)
class Outcome:
    """How a call ended.

    Attributes:
        exit_code: 0 good, 1 the run failed, 2 something asked for is no good; else it was stopped.
        said: The object on its stdout, empty if there was none.
    """

    exit_code: int
    said: dict[str, Any]

    @property
    def reason(self) -> str:
        """Why it failed, in a sentence."""
        error = self.said.get("error", {})
        code = self.exit_code
        return str(error.get("message", f"keyspread was stopped or killed (exit code {code})"))


class Call:
    """One call of a command that prints one JSON object.

    Args:
        command: The program and its arguments.
        folder: Where it runs.
        log: Takes each line of its stderr.
        stop_s: How long it may take to end when it is asked to.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        log: Callable[[str], None],
        stop_s: int = STOP_SECONDS,
    ) -> None:
        self._command = list(command)
        self._folder = folder
        self._log = log
        self._stop_s = stop_s
        self._process: subprocess.Popen[str] | None = None

    def run(self) -> Outcome:
        """Run it to its end.

        Returns:
            Its exit code and its object.
        """
        guard = [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), str(self._stop_s)]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
            with subprocess.Popen(
                [*guard, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                cwd=self._folder,
                # A group of its own: what kills the task does not kill it before it has cleaned up.
                start_new_session=True,
            ) as process:
                self._process = process
                assert process.stderr is not None
                for line in process.stderr:
                    self._log(line.rstrip("\n"))
            self._process = None
            out.seek(0)
            return Outcome(process.returncode, _last_object(out.read()))

    def stop(self) -> None:
        """Ask it to end, and wait until it has, with all its processes."""
        if (process := self._process) is not None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2 * self._stop_s)


def _last_object(text: str) -> dict[str, Any]:
    """Read the JSON object on the last line, if there is one."""
    lines = text.strip().splitlines()
    with contextlib.suppress(ValueError):
        found = json.loads(lines[-1]) if lines else {}
        if isinstance(found, dict):
            return found
    return {}
