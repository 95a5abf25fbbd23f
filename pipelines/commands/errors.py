"""What every command does with an error: one sentence on stderr, and an exit code.

With `--json` stdout holds exactly one JSON object also then:
`{"error": {"message": "...", "exit_code": 2}}`.
"""

from __future__ import annotations

import functools
import json
import os
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import typer

Command = TypeVar("Command", bound=Callable[..., Any])

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_PIPE = 141  # as a program ended by SIGPIPE


def explains_errors(command: Command) -> Command:
    """Wrap a command so that errors meant for the user end it with their sentence and code.

    Anything else is a fault of ours and keeps its traceback. A stop signal ends with 128 plus
    its number.

    Args:
        command: A Typer command; its parameter `as_json`, if it has one, tells how to speak.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        # Late, as everything of ours: `keyspread --help` shall not wait for numba.
        from partitioners.errors import KeyspreadError
        from pipelines.interrupt import Interrupted

        as_json = kwargs.get("as_json") in (True, "-")
        try:
            return command(*args, **kwargs)
        except KeyspreadError as error:
            _leave(str(error), error.exit_code, as_json)
        except BrokenPipeError:
            # The reader of our output has gone (`| head`): nothing is left to be said.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(EXIT_PIPE) from None
        except socket.gaierror as error:
            _leave(
                f"a host name could not be looked up ({error.strerror or error}): check the "
                "names given, and that /etc/hosts has localhost",
                EXIT_BAD_INPUT,
                as_json,
            )
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            _leave(
                f"cannot read or write{where}: {error.strerror or error}; check the path, its "
                "permissions and the free space",
                EXIT_BAD_INPUT,
                as_json,
            )
        except Interrupted as error:
            _leave(str(error), error.exit_code, as_json)

    return wrapped  # type: ignore[return-value]


def _leave(message: str, code: int, as_json: bool) -> None:
    tell(message, code, as_json)
    raise typer.Exit(code)


def tell(message: str, code: int, as_json: bool) -> None:
    """Say an error on stderr, and with `--json` as the one object on stdout."""
    typer.secho(f"keyspread: {message}", err=True)
    if as_json:
        typer.echo(json.dumps({"error": {"message": message, "exit_code": code}}))
