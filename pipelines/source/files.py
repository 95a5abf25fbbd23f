"""Settings of a Kafka client that work on another machine: its files go along."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partitioners.errors import InputError

_FILES = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.crl.location",
)


@dataclass(frozen=True)
class Shipped:
    """librdkafka's settings and the contents of the files that they name.

    Where a named file is not there, it is written to a folder that only the user can read.

    Attributes:
        given: The settings.
        contents: Of the files, by setting.
    """

    given: Mapping[str, Any] = field(repr=False)
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Shipped:
        """Read the files; folders of certificates stay where they are.

        Raises:
            InputError: One cannot be read.
        """
        contents = {}
        for name in _FILES:
            path = settings.get(name)
            if not path or Path(path).is_dir() or str(path) == "probe":
                continue
            try:
                contents[name] = Path(path).read_bytes()
            except OSError as error:
                raise InputError(
                    f"cannot read {path} ({error.strerror}): mend {name} of the Kafka settings"
                ) from None
        return cls(dict(settings), contents)

    def settings(self) -> dict[str, Any]:
        """The settings, with paths that are on this machine."""
        settings = dict(self.given)
        for name, content in self.contents.items():
            if not _holds(Path(settings[name]), content):
                settings[name] = str(_private(content))
        return settings


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _private(content: bytes) -> Path:
    """A file of this content that only this user can read."""
    folder = Path(tempfile.gettempdir()) / f"keyspread-{os.getuid()}-files"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        folder = Path(tempfile.mkdtemp(prefix="keyspread-files-"))
    path = folder / hashlib.sha256(content).hexdigest()
    if not _holds(path, content):
        handle, scratch = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(scratch).replace(path)
    return path
