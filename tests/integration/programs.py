"""Runs `keyspread` as a program of its own, and sees that nothing of it is left."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

COMMAND = [sys.executable, "-c", "from pipelines.cli import main; main()"]
ROOT = Path(__file__).parent.parent.parent
PATIENCE_SECONDS = 240.0


class Program:
    """A running `keyspread`, with all processes it ever had."""

    def __init__(self, *args: object, wrapper: tuple[str, ...] = (), cwd: Path = ROOT) -> None:
        self.family: dict[int, psutil.Process] = {}
        self.process = subprocess.Popen(
            [*wrapper, *COMMAND, *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.out = self.err = ""

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something to happen while the program runs."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            self.look()
            assert self.process.poll() is None, f"ended before {what}: {self.finish()}"
            assert time.monotonic() < deadline, f"never {what}"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)
        self.look()

    def look(self) -> None:
        """Note the processes it has now."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                self.family[child.pid] = child

    def wait_for_line(self, words: str) -> None:
        """Wait until it says something on stderr."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.err += line
            if words in line:
                break
        else:
            raise AssertionError(f"never said {words}: {self.err}")
        self.look()

    def finish(self) -> tuple[int, str, str]:
        """Wait for its end; give exit code, stdout, stderr."""
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        self.out, self.err = out, self.err + err
        return self.process.returncode, self.out, self.err

    def stop(self, number: signal.Signals) -> tuple[int, str, str]:
        """Send a signal and wait for the end."""
        self.look()
        self.process.send_signal(number)
        return self.finish()

    def survivors(self) -> list[psutil.Process]:
        """Processes of the program that are still there some seconds after its end."""
        _gone, alive = psutil.wait_procs(list(self.family.values()), timeout=20)
        return list(alive)


def run_json(*args: object, cwd: Path = ROOT) -> dict[str, Any]:
    """Run a command with `--json` to its good end; gives the object."""
    program = Program(*args, "--json", cwd=cwd)
    code, out, err = program.finish()
    assert code == 0, err + out
    assert out.count("\n") == 1, out
    found: dict[str, Any] = json.loads(out)
    return found


def keyed_lines(path: Path, num_records: int, seed: int = 3, disorder_ms: int = 0) -> Path:
    """Write `ts,key,x` with skewed keys, 10 records per second of event time and key set."""
    draw = random.Random(seed)
    with path.open("w") as file:
        for i in range(num_records):
            time_ms = i * 10 + (draw.randint(-disorder_ms, disorder_ms) if disorder_ms else 0)
            file.write(f"{time_ms},key-{int(draw.paretovariate(0.8))},{i % 100}\n")
    return path
