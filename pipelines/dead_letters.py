"""Lines that are no records, kept with their number so that nothing is lost silently."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TextIO

from partitioners.errors import InputError
from pipelines.text_input import RejectedLine


class DeadLetters:
    """Writes rejected lines to a JSON-lines file, one object with path, number, reason and text.

    The file is made with the first rejected line. A run that is resumed reads its input from the
    start again and so writes the same file again.

    Args:
        path: Where the file goes.
        keep: Add to the lines that are there already, which are somebody else's.
    """

    def __init__(self, path: Path, *, keep: bool = False) -> None:
        self.path = path
        self.count = 0
        self._mode: Literal["a", "w"] = "a" if keep else "w"
        self._file: TextIO | None = None
        # A device such as /dev/null stays.
        if path.is_file() and not keep:
            path.unlink()

    def add(self, line: RejectedLine) -> None:
        """Keep one line.

        Raises:
            InputError: The file cannot be written.
        """
        try:
            if self._file is None:
                self._file = self.path.open(self._mode, encoding="utf-8")
            self._file.write(json.dumps(asdict(line)) + "\n")
        except OSError as error:
            raise self._unwritable(error) from error
        self.count += 1

    def close(self) -> None:
        """Write what is buffered.

        Raises:
            InputError: The file cannot be written.
        """
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(
            f"cannot write the bad lines to {self.path} ({error.strerror}): free some space there, "
            "or name a file that can be written"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
