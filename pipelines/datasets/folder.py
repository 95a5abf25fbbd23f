"""A folder of prepared files: each whole or not there, each with its checksum.

`manifest.json` says what the folder was made with and lists its files. A file is written beside its
place, packed, and renamed when whole; a preparation that is started again leaves alone what is
there and has its checksum, and is refused where it was started with other settings.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from partitioners.errors import InputError

MANIFEST = "manifest.json"
# Half the time of gzip's default for a tenth more bytes.
GZIP_LEVEL = 3
LINES_PER_PART = 1_000_000
_BLOCK_BYTES = 1 << 20


class DataFolder:
    """A folder of prepared files.

    Args:
        path: The folder.
        settings: What it is made with; plain JSON.

    Raises:
        InputError: It cannot be made, holds something else, or was made with other settings.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self._manifest: dict[str, Any] = {"settings": settings, "files": {}}
        try:
            path.mkdir(parents=True, exist_ok=True)
            known = (path / MANIFEST).is_file()
            if known:
                self._manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"cannot write {path}: {error.strerror}; name another folder with --out"
            ) from error
        except ValueError as error:
            raise InputError(
                f"{path / MANIFEST} is damaged ({error}): name a new folder with --out"
            ) from error
        if not known and any(path.iterdir()):
            raise InputError(f"{path} is not empty: name a new folder with --out")
        made_with = self._manifest.get("settings")
        if made_with != settings:
            raise InputError(
                f"{path} was made with {json.dumps(made_with)}, not {json.dumps(settings)}: name a "
                "new folder with --out"
            )
        self._save()

    @property
    def files(self) -> dict[str, dict[str, Any]]:
        """The finished files: checksum, bytes, lines and what else is known of them."""
        return dict(self._manifest["files"])

    def has(self, name: str) -> bool:
        """Whether a file is there, as it was written."""
        about = self._manifest["files"].get(name)
        path = self.path / name
        if about is None or not path.is_file() or path.stat().st_size != about["bytes"]:
            return False
        return bool(_sha256(path) == about["sha256"])

    def write(
        self,
        name: str,
        blocks: Iterable[bytes],
        on_lines: Callable[[int], None] = lambda _lines: None,
        about: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """Write and pack a file of lines.

        Args:
            name: Of the file; ends in `.gz`.
            blocks: Whole lines.
            on_lines: Called with the number of lines of each block.
            about: Called at the end, for what the manifest says of the file beside its size.

        Raises:
            InputError: The disk is full, or fails.
        """
        scratch = self.path / f".{name}.tmp"
        lines = 0
        try:
            # No name and no time: the same lines make the same file.
            with (
                scratch.open("wb") as raw,
                gzip.GzipFile("", "wb", GZIP_LEVEL, raw, mtime=0) as packed,
            ):
                for block in blocks:
                    packed.write(block)
                    count = block.count(b"\n")
                    lines += count
                    on_lines(count)
            size, digest = scratch.stat().st_size, _sha256(scratch)
            scratch.replace(self.path / name)
        except OSError as error:
            raise InputError(
                f"cannot write {self.path / name}: {error.strerror}; start again to go on"
            ) from error
        finally:
            scratch.unlink(missing_ok=True)
        self._manifest["files"][name] = {
            "sha256": digest,
            "bytes": size,
            "lines": lines,
            **about(),
        }
        self._save()

    def finish(self, input_names: Iterable[str]) -> None:
        """Note which files are a run's input, in order."""
        self._manifest["input"] = list(input_names)
        self._save()

    def _save(self) -> None:
        scratch = self.path / f".{MANIFEST}.tmp"
        scratch.write_text(json.dumps(self._manifest, indent=1) + "\n", encoding="utf-8")
        scratch.replace(self.path / MANIFEST)


def input_files(path: Path) -> list[Path]:
    """The input of a prepared folder, in order; any other path by itself.

    Raises:
        InputError: The folder is not finished.
    """
    manifest = path / MANIFEST
    if not manifest.is_file():
        return [path]
    names = json.loads(manifest.read_text(encoding="utf-8")).get("input")
    if names is None:
        raise InputError(f"{path} is not finished: start its `keyspread data` command again")
    return [path / name for name in names]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
