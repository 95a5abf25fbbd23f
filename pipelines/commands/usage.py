"""A command line that cannot be read: one sentence with the nearest name, as for any bad input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import typer

from partitioners.errors import nearest

MOST_NAMES = 4
# Typer checks types by pydantic, whose words are for programmers.
TYPE_WORDS = {
    "valid integer": "a whole number",
    "valid number": "a number",
    "valid boolean": "true or false",
}


def usage_sentence(error: typer.TyperException) -> str | None:
    """Say in one sentence what cannot be read, and how it would be right.

    Args:
        error: What Typer raised when it read the command line.

    Returns:
        The sentence; None where a group of commands was named alone and the message is its help.
    """
    context: Any = getattr(error, "ctx", None)
    text = error.format_message().removesuffix(".")
    if context and error.message == context.get_help():
        return None
    path = context.command_path if context else "keyspread"
    see = f"see `{path} --help`"
    if missing := re.match(r"Option '(.*)' requires an argument", text):
        return f"{missing[1]} needs a value after it"
    if context and getattr(error, "possibilities", None) is not None:
        option: str = error.option_name  # type: ignore[attr-defined]
        return (
            f'`{path}` has no option "{option}": {nearest(option, _options(context), MOST_NAMES)}'
        )
    if unknown := re.match(r"No such command '(.*?)'", text):
        known = context.command.list_commands(context)
        return f'`{path}` has no command "{unknown[1]}": {nearest(unknown[1], known)}'
    if surplus := re.match(r"Got unexpected extra argument.*? \((.*)\)$", text):
        return f'`{path}` does not take "{surplus[1]}": leave it out, or {see}'
    if wrong := re.match(r"Invalid value for '?(.*?)'?: (.*)", text, re.DOTALL):
        return f"{wrong[1]} must be {_wanted(wrong[2])}: {see}"
    if needed := re.match(r"Missing (?:argument|option) '(.*?)'", text):
        name = needed[1] if needed[1].startswith("-") else needed[1].upper()
        return f"`{path}` needs {name}: {see}"
    return f"{text}: {see}"


def refuse_empty_values(arguments: Sequence[str]) -> None:
    """Refuse an empty text as a value: as a path it would be the folder one stands in.

    Args:
        arguments: The command line.

    Raises:
        typer.BadParameter: One is empty.
    """
    for before, argument in pairwise(["", *arguments]):
        name = argument[:-1] if re.fullmatch("--[a-z-]+=", argument) else before
        if name != before or not argument:
            raise typer.BadParameter("empty", param_hint=name or "an argument")


def _wanted(why: str) -> str:
    """Say which values an option takes, in other words than the type's."""
    for theirs, ours in TYPE_WORDS.items():
        if theirs in why:
            return ours
    if why == "empty":
        return "given a value that is not empty"
    bound = re.match(r"Input should be (greater|less) than (or equal to )?(.*)", why)
    if bound is None:
        return f"another value ({why})"
    more = "more" if bound[1] == "greater" else "less"
    return f"{bound[3]} or {more}" if bound[2] else f"{more} than {bound[3]}"


def _options(context: Any) -> list[str]:
    """Every long option of the command, without those that `--help` does not show."""
    return [
        name
        for parameter in context.command.get_params(context)
        if not getattr(parameter, "hidden", False)
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    ]
