"""What a pipe or a file gets: lines as they are, without wrapping and padding."""

from __future__ import annotations

import pytest
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipelines.consoles import stderr_console, stdout_console

SENTENCE = "a sentence " * 40 + "has an end"


def test_lines_are_neither_wrapped_nor_padded(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(box=None, padding=(0, 1))
    table.add_column("name")
    table.add_column("number", justify="right")
    table.add_column("remark")
    table.add_row("one", "1", "")
    table.add_row("key " * 50, "1,000", "long")
    stdout_console().print(Group(Text(SENTENCE), table))
    stderr_console().print(f"{SENTENCE} ...", style="dim")
    stderr_console(quiet=True).print("nothing of this")
    out, err = capsys.readouterr()
    assert err == f"{SENTENCE} ...\n"
    first, head, one, key = out.splitlines()
    assert first == SENTENCE
    assert key.endswith(" long")
    assert one.endswith(" 1")
    assert one.rindex("1") == key.rindex("1,000") + 4
    assert not [line for line in (head, one, key) if line != line.rstrip()]
