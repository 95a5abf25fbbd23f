"""Servers that do not let a client in, without Kafka: what TLS and logins say is in containers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from partitioners.errors import InputError
from partitioners.kafka.refusals import raise_if_refused


@pytest.fixture
def server_that_hangs_up() -> Iterator[str]:
    """As a broker does that expects TLS and reads something else."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_server_that_hangs_up(server_that_hangs_up: str) -> None:
    with pytest.raises(InputError, match=r"hang up: set security\.protocol to what that port"):
        raise_if_refused({"bootstrap.servers": server_that_hangs_up}, hearing_s=1)


def test_nobody_there_is_no_refusal() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        raise_if_refused({"bootstrap.servers": f"127.0.0.1:{closed.getsockname()[1]}"}, 0.5)
