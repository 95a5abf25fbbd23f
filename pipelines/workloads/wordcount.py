"""Word counts of a text: how often each word occurs in each window, and the most frequent ones.

A word is a run of letters and digits, with single apostrophes inside (``don't``), in lower case.
Words come at a steady rate: word i has event time i * 1000 / event_rate milliseconds.

Lower case is defined so that no engine's idea of context or locale matters: capital sigma is
always the common small one, the dotted capital I is ``i`` with a combining dot (U+0307), all others
are their simple mapping.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from partitioners.errors import InputError
from pipelines.aggregates import Aggregates
from pipelines.text_input import LineChunk
from pipelines.workloads.base import DATA, RECORDS, Decoded, Emit, Parsed, Parser, Workload
from pipelines.workloads.fields import read_int64s, write_int64s

if TYPE_CHECKING:
    import duckdb

WORD = "[\\p{L}\\p{N}]+(?:['\u2019][\\p{L}\\p{N}]+)*"
# Capitals whose lower case depends on the letters around them, or is more than one code point.
SPECIAL_LOWER = {"\u03a3": "\u03c3", "\u0130": "i\u0307"}


class WordParser(Parser):
    """Splits lines into words and numbers them."""

    def __init__(self, event_rate: int) -> None:
        self._event_rate = event_rate
        self._words = 0

    def parse(self, chunk: LineChunk) -> Parsed:
        """See `Parser`."""
        words = (
            pl.Series("line", chunk.lines, dtype=pl.String)
            .str.extract_all(WORD)
            .explode()
            .drop_nulls()
            .str.replace_many(SPECIAL_LOWER)
            .str.to_lowercase()
        )
        numbers = np.arange(self._words, self._words + len(words), dtype=np.int64)
        self._words += len(words)
        timestamps = numbers * 1000 // self._event_rate
        keys = words.to_arrow().cast(pa.binary())
        return Parsed(pa.table([timestamps, keys, write_int64s(timestamps)], schema=RECORDS))


class WordCount(Workload):
    """Counts of words.

    Args:
        event_rate: Words per second of event time.
    """

    # data
    name: ClassVar[str] = "wordcount"
    default_input: ClassVar[Path | None] = DATA / "anna_karenina.txt.gz"
    default_window_ms = 30_000
    default_slide_ms = 10_000

    def __init__(self, event_rate: int = 1000) -> None:
        if not 1 <= event_rate <= 10**9:
            raise InputError(f"event_rate must be from 1 to 1,000,000,000, not {event_rate}")
        self.event_rate = event_rate

    # parse
    def parser(self) -> WordParser:
        """See `Workload`."""
        return WordParser(self.event_rate)

    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:  # noqa: ARG002
        """See `Workload`."""
        (timestamps,), good = read_int64s(values, 1)
        return Decoded(timestamps, good=good)

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("word", pa.string()),)
    value_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("count", pa.int64()),)
    aggregates: Aggregates = Aggregates()

    # oracle
    def oracle_records(
        self,
        connection: duckdb.DuckDBPyConnection,  # noqa: ARG002 - plain SQL needs no functions
        lines: str,
    ) -> str:
        """See `Workload`."""
        pattern = WORD.replace("'", "''")
        lower = "word"
        for capital, small in SPECIAL_LOWER.items():
            lower = f"replace({lower}, '{capital}', '{small}')"
        return f"""
            WITH found AS (
                SELECT line_number, regexp_extract_all(line, '{pattern}') AS words FROM {lines}
            ), placed AS (
                SELECT words, sum(len(words)) OVER (ORDER BY line_number) - len(words) AS before
                FROM found
            ), numbered AS (
                SELECT unnest(words) AS word, before + generate_subscripts(words, 1) - 1 AS i
                FROM placed
            )
            SELECT i::BIGINT AS record_index, i::BIGINT * 1000 // {self.event_rate} AS timestamp_ms,
                   lower({lower}) AS word
            FROM numbered
        """

    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        return {"count": "count(*)"}


class TopWords(WordCount):
    """The ten most frequent words of each window."""

    # data
    name: ClassVar[str] = "wordcount-topk"
    default_emit: ClassVar[Emit] = "top"
