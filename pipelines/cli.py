"""The command `keyspread`. The commands are in `pipelines.commands`, one module each."""

from __future__ import annotations

import pipelines.early_stop  # noqa: F401  it acts when imported

# isort: split

import sys
from typing import Annotated, NoReturn

import typer

from pipelines.commands.advise import advise
from pipelines.commands.bench import bench
from pipelines.commands.broker import broker
from pipelines.commands.dalton_reducer import dalton_reducer
from pipelines.commands.data import data
from pipelines.commands.demo import demo
from pipelines.commands.doctor import doctor
from pipelines.commands.explain import explain
from pipelines.commands.grid import grid
from pipelines.commands.produce import produce
from pipelines.commands.report import report
from pipelines.commands.run import run
from pipelines.commands.simulate import simulate
from pipelines.commands.verify import verify

app = typer.Typer(
    name="keyspread",
    help="Spreads hot keys over Kafka partitions and reduces them to exact sliding windows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(demo)
app.command()(run)
app.command()(produce)
app.command()(advise)
app.add_typer(bench, name="bench")
app.command()(dalton_reducer)
app.command()(simulate)
app.command()(report)
app.command()(verify)
app.add_typer(grid, name="grid")
app.add_typer(data, name="data")
app.add_typer(broker, name="broker")
app.command()(doctor)
app.command()(explain)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"keyspread {version('keyspread')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
    ] = False,
) -> None:
    """Options of the program itself."""
    del version  # its callback has ended the program


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line.

    Args:
        arguments: Without the program's name; None: those of this process.

    Raises:
        SystemExit: Always, with the exit code.
    """
    from pipelines.commands.errors import EXIT_BAD_INPUT, tell
    from pipelines.commands.usage import refuse_empty_values, usage_sentence
    from pipelines.interrupt import Interrupted, raise_on_stop_signals

    given = sys.argv[1:] if arguments is None else arguments
    raise_on_stop_signals()
    try:
        refuse_empty_values(given)
        code = app(given, prog_name="keyspread", standalone_mode=False)
    except typer.TyperException as error:
        if (sentence := usage_sentence(error)) is None:  # a group alone: its help
            typer.echo(error.message, err=True)
        else:
            tell(sentence, EXIT_BAD_INPUT, as_json="--json" in given)
        code = EXIT_BAD_INPUT
    except Interrupted as error:  # before a command began
        tell(str(error), error.exit_code, as_json="--json" in given)
        code = error.exit_code
    raise SystemExit(code if isinstance(code, int) else 0)
