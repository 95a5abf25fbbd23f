"""Runs a command so that it ends soon after it is asked to, or after its parent has died.

    python guard.py PARENT_PID PATIENCE_SECONDS COMMAND ...

Airflow kills a task 5 s after it asked it to end; a run takes longer to stop Spark and to remove
its topic. So this process stands between them: it passes the request on, waits, and kills what is
left of the group. Standard library alone; run with `-I -S`, it starts in hundredths of a second.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from types import FrameType

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Run the command; gives its exit code."""
    parent, patience_s, *command = arguments
    process: subprocess.Popen[bytes] | None = None
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            return
        stopping = True
        signal.alarm(max(1, int(patience_s)))
        if process is not None:
            process.terminate()

    def kill(_number: int, _frame: FrameType | None) -> None:
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGALRM, kill)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        return 128 + signal.SIGTERM
    process = subprocess.Popen(command)
    if stopping:
        process.terminate()
    code = process.wait()
    if stopping:
        # Nothing of it stays, whatever it has left; this process is of the group too. No word:
        # whoever read our stderr may be gone.
        os.killpg(0, signal.SIGKILL)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
