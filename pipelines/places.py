"""Where Keyspread keeps files of its own, and what to say when it cannot write there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from partitioners.errors import InputError, KeyspreadError, RunError

DEFAULT_RUNS_DIR = Path("runs")


def keyspread_home() -> Path:
    """Say where downloads and the default broker live: `KEYSPREAD_HOME` or `~/.cache/keyspread`.

    Example:
        >>> keyspread_home().is_absolute()
        True
    """
    named = os.environ.get("KEYSPREAD_HOME")
    return Path(named).expanduser().absolute() if named else Path.home() / ".cache" / "keyspread"


def storage_error(error: OSError, path: Path) -> KeyspreadError:
    """Turn a failed write into a sentence with its mend.

    Args:
        error: What the operating system said.
        path: The file or folder that was to be written.

    Returns:
        The error to raise.

    Example:
        >>> str(storage_error(OSError(errno.ENOSPC, "No space left on device"), Path("/data")))
        'the disk that holds /data is full: free some space, or name a folder on another disk'
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(
            f"the disk that holds {path} is full: free some space, or name a folder on another disk"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return InputError(
            f"no permission to write {path}: name another folder, or set KEYSPREAD_HOME to one "
            "that you may write"
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return InputError(f"{path} is not a folder: name another folder, or move that file away")
    if error.errno in (errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP):
        return InputError(f"cannot write {path} ({error.strerror}): name another folder")
    return RunError(f"cannot write {path} ({error.strerror or error}): check its disk")
