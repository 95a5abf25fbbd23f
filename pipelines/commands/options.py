"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from partitioners.option_values import parse_value
from pipelines.places import DEFAULT_RUNS_DIR as DEFAULT_RUNS_DIR

Paths = TypeVar("Paths", Path, list[Path], None)


def without_dots(paths: Paths) -> Paths:
    """Resolve paths with `..` in them: in messages and in what is kept they would mislead.

    Example:
        >>> without_dots(Path("/usr/lib/../bin")), without_dots([Path("a/b")])
        (PosixPath('/usr/bin'), [PosixPath('a/b')])
    """
    if isinstance(paths, list):
        return [without_dots(path) for path in paths]
    return paths.resolve() if paths is not None and ".." in paths.parts else paths


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
RunsDir = Annotated[
    Path,
    typer.Option(
        "--runs-dir",
        envvar="KEYSPREAD_RUNS_DIR",
        help="Folder that keeps the runs.",
        callback=without_dots,
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        envvar="KEYSPREAD_BOOTSTRAP",
        help="Kafka servers; left out: the started or an own broker.",
    ),
]
Master = Annotated[str, typer.Option("--master", envvar="KEYSPREAD_MASTER", help="Spark master.")]
KafkaSettings = Annotated[
    list[str] | None,
    typer.Option("--kafka", help="A librdkafka setting, key=value; again for more."),
]
KafkaFile = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        envvar="KEYSPREAD_KAFKA_CONFIG",
        help="A properties file with librdkafka settings.",
    ),
]
OnePartitioner = Annotated[
    str, typer.Option("--partitioner", help="Who chooses the partition, with options: pkg:d=3.")
]
PartitionerOptions = Annotated[
    list[str] | None,
    typer.Option("--option", help="An option of the partitioner, name=value; again for more."),
]

MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        envvar="KEYSPREAD_METRICS_PORT",
        help="Serve Prometheus metrics here while it runs; 0: any free port.",
    ),
]
MetricsHost = Annotated[
    str,
    typer.Option(
        "--metrics-host",
        envvar="KEYSPREAD_METRICS_HOST",
        help="Address of the metrics; 0.0.0.0: all of this machine's.",
    ),
]
Redact = Annotated[
    bool, typer.Option("--redact", help="Show keys as hashes, so that the output can be shared.")
]

DEFAULT_MASTER = "local[2]"
DEFAULT_METRICS_HOST = "127.0.0.1"


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, str]:
    """Read repeated `key=value`.

    Args:
        pairs: What was given.
        option: The option they were given to, for the message.

    Raises:
        InputError: One has no `=`, or a key comes twice.

    Example:
        >>> parse_pairs(["acks=all", "x=a=b"], "--kafka")
        {'acks': 'all', 'x': 'a=b'}
    """
    from partitioners.errors import InputError

    found: dict[str, str] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InputError(f'{option} "{pair}" is not key=value: write it as {option} name=value')
        if key in found:
            raise InputError(f"{option} {key} was given twice: leave one out")
        found[key] = value.strip()
    return found


def parse_typed_pairs(pairs: list[str] | None, option: str) -> dict[str, Any]:
    """Read repeated `name=value`, with numbers and truth values as such.

    Example:
        >>> parse_typed_pairs(["d=5", "epsilon=0.1", "cardinality=hll", "distinct=false"], "-o")
        {'d': 5, 'epsilon': 0.1, 'cardinality': 'hll', 'distinct': False}
    """
    return {key: parse_value(value) for key, value in parse_pairs(pairs, option).items()}


def one_partitioner(
    text: str, pairs: list[str] | None, otherwise: str
) -> tuple[str, dict[str, Any]]:
    """Read a partitioner with its options, which stand behind its name or in options of their own.

    Args:
        text: Its name, or `name:option=value`.
        pairs: Values of `--option`.
        otherwise: What to do where several are wanted.

    Raises:
        InputError: There are several, or an option is none or comes twice.

    Example:
        >>> one_partitioner("pkg:d=3", ["tie=last"], "")
        ('pkg', {'d': 3, 'tie': 'last'})
    """
    from partitioners.errors import InputError
    from partitioners.option_values import list_of
    from partitioners.stream_names import parse_named

    if len(list_of([text])) > 1:
        raise InputError(f"--partitioner takes one name here, not {text}: {otherwise}")
    named = parse_named(text)
    options, more = dict(named.options), parse_typed_pairs(pairs, "--option")
    for name in options.keys() & more.keys():
        raise InputError(f"{name} of {named.name} was given twice: leave one out")
    return named.name, options | more


def kafka_settings(file: Path | None, pairs: list[str] | None) -> dict[str, str]:
    """Read librdkafka settings from a properties file and from options, which win.

    Args:
        file: Lines `key=value`; `#` or `!` begins a comment line.
        pairs: Values of `--kafka`.

    Raises:
        InputError: The file cannot be read, or a line is none.
    """
    from partitioners.errors import InputError

    settings: dict[str, str] = {}
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read --kafka-config {file}: {error}") from error
        for number, line in enumerate(map(str.strip, lines), 1):
            if not line or line.startswith(("#", "!")):
                continue
            key, equals, value = (part.strip() for part in line.partition("="))
            if not equals or not key:
                raise InputError(
                    f'line {number} of --kafka-config {file} is not key=value: "{line}"; write a '
                    "librdkafka setting such as security.protocol=SASL_SSL"
                )
            if key in settings:
                raise InputError(
                    f"line {number} of --kafka-config {file} gives {key} again: leave one out"
                )
            settings[key] = value
    return settings | parse_pairs(pairs, "--kafka")
