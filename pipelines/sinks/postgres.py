"""Results as rows of a PostgreSQL table, one per window and key."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.csv

from partitioners.errors import InputError, RunError
from pipelines.sinks.base import Part, Shape, Sink, plain

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed, Identifier

# Unique indexes that take nulls as equal, which the null key needs, are there from this version on.
LEAST_VERSION = 15
CONNECT_SECONDS = 10
_PENDING = "keyspread_rows"


@dataclass(frozen=True)
class PostgresSink(Sink):
    """A table of PostgreSQL 15 or later, which is made if it is not there.

    Exactly once: each part of a batch is one transaction that copies the rows into a temporary
    table, inserts them, updating rows of the same window and key, and notes part and batch in a
    second table, `<table>_batches` (batch, part, rows, time). A part that is done again changes
    nothing. A reader sees the parts of a batch one by one.

    Attributes:
        conninfo: A connection string or URI of libpq; PGPASSWORD or ~/.pgpass may give a password.
        table: Its name, or schema and name with a point between.
    """

    guarantee: ClassVar[str] = "exactly once, by upsert; a transaction per part of a batch"
    conninfo: str
    table: str

    def open(self, shape: Shape) -> None:
        """See `Sink`."""
        psycopg = _psycopg()
        try:
            with self._connect() as connection:
                version = connection.info.server_version // 10_000
                if version < LEAST_VERSION:
                    raise InputError(
                        f"the PostgreSQL server is of version {version}: use {LEAST_VERSION} or "
                        "later"
                    )
                self._make(connection, shape)
                self._compare(connection, shape)
        except psycopg.Error as error:
            raise InputError(
                f"PostgreSQL does not take the results ({_reason(error)}): check the connection "
                "string, the table's name and your rights"
            ) from error

    def write(self, tables: Iterable[pa.Table], shape: Shape, part: Part) -> int:
        """See `Sink`."""
        psycopg = _psycopg()
        from psycopg.sql import SQL, Identifier

        rows = 0
        pending = Identifier(_PENDING)
        try:
            with self._connect() as connection, connection.cursor() as cursor:
                cursor.execute(
                    SQL("CREATE TEMP TABLE {} (LIKE {}) ON COMMIT DROP").format(pending, self._name)
                )
                copy_in = SQL("COPY {} ({}) FROM STDIN WITH (FORMAT csv)").format(
                    pending, _names(shape.schema.names)
                )
                with cursor.copy(copy_in) as copy:
                    for table in tables:
                        copy.write(_csv(plain(table, shape.schema)))
                        rows += table.num_rows
                cursor.execute(self._upsert(shape))
                cursor.execute(
                    SQL(
                        "INSERT INTO {} VALUES (%s, %s, %s, now()) ON CONFLICT (batch_id, part) "
                        "DO UPDATE SET num_rows = EXCLUDED.num_rows, written = EXCLUDED.written"
                    ).format(self._batches),
                    (part.batch_id, part.name, rows),
                )
        except psycopg.Error as error:
            mend = "see that the server runs and has room"
            if isinstance(error, psycopg.DataError):
                mend = "PostgreSQL's text holds no NUL character, so leave such keys out"
            raise RunError(f"PostgreSQL did not take a batch ({_reason(error)}): {mend}") from error
        return rows

    def _connect(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = _psycopg().connect(
            self.conninfo, connect_timeout=CONNECT_SECONDS
        )
        return connection

    @property
    def _name(self) -> Identifier:
        from psycopg.sql import Identifier

        return Identifier(*self.table.split(".", 1))

    @property
    def _batches(self) -> Identifier:
        from psycopg.sql import Identifier

        return Identifier(*f"{self.table}_batches".split(".", 1))

    def _make(self, connection: psycopg.Connection[Any], shape: Shape) -> None:
        from psycopg.sql import SQL, Identifier

        columns = SQL(", ").join(
            SQL("{} {}").format(Identifier(field.name), SQL(postgres_type(field.type)))
            for field in shape.schema
        )
        connection.execute(
            SQL("CREATE TABLE IF NOT EXISTS {} ({}, UNIQUE NULLS NOT DISTINCT ({}))").format(
                self._name, columns, _names(shape.identity)
            )
        )
        connection.execute(
            SQL(
                "CREATE TABLE IF NOT EXISTS {} (batch_id bigint, part text, num_rows bigint, "
                "written timestamptz, PRIMARY KEY (batch_id, part))"
            ).format(self._batches)
        )

    def _compare(self, connection: psycopg.Connection[Any], shape: Shape) -> None:
        """See that a table that was there has the columns, and a unique index of the identity."""
        from psycopg.sql import SQL

        cursor = connection.execute(SQL("SELECT * FROM {} LIMIT 0").format(self._name))
        there = [column.name for column in cursor.description or ()]
        if sorted(there) != sorted(shape.schema.names):
            raise InputError(
                f"the table {self.table} has the columns {', '.join(there)}, not "
                f"{', '.join(shape.schema.names)}: name another table, or drop this one"
            )
        # An upsert of nothing fails where there is no such index.
        connection.execute(
            SQL("CREATE TEMP TABLE {} (LIKE {}) ON COMMIT DROP").format(
                _identifier(_PENDING), self._name
            )
        )
        connection.execute(self._upsert(shape))

    def _upsert(self, shape: Shape) -> Composed:
        from psycopg.sql import SQL

        others = [name for name in shape.schema.names if name not in shape.identity]
        return SQL(
            "INSERT INTO {table} ({columns}) SELECT {columns} FROM {pending} "
            "ON CONFLICT ({identity}) DO UPDATE SET {changes}"
        ).format(
            table=self._name,
            columns=_names(shape.schema.names),
            pending=_identifier(_PENDING),
            identity=_names(shape.identity),
            changes=SQL(", ").join(
                SQL("{0} = EXCLUDED.{0}").format(_identifier(name)) for name in others
            ),
        )


def postgres_type(kind: pa.DataType) -> str:
    """The type of PostgreSQL for one of Arrow.

    Raises:
        InputError: There is none.

    Example:
        >>> [postgres_type(kind) for kind in (pa.int64(), pa.decimal128(19, 2), pa.binary())]
        ['bigint', 'numeric(19, 2)', 'bytea']
    """
    if pa.types.is_timestamp(kind):
        return "timestamptz"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_nested(kind):
        return "jsonb"
    names = {
        pa.bool_(): "boolean",
        pa.int16(): "smallint",
        pa.int32(): "integer",
        pa.int64(): "bigint",
        pa.float32(): "real",
        pa.float64(): "double precision",
        pa.string(): "text",
        pa.binary(): "bytea",
        pa.date32(): "date",
    }
    if kind not in names:
        raise InputError(f"PostgreSQL has no type for a column of {kind}: write to a folder")
    return names[kind]


def _csv(table: pa.Table) -> bytes:
    """Rows as CSV: nulls are nothing, and an empty text is two quotes."""
    columns = []
    for column in table.columns:
        if pa.types.is_binary(column.type):
            hexed = [None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()]
            column = pa.array(hexed, type=pa.string())
        elif pa.types.is_nested(column.type):
            texts = [
                None if value is None else json.dumps(value, default=str)
                for value in column.to_pylist()
            ]
            column = pa.array(texts, type=pa.string())
        columns.append(column)
    buffer = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False)
    pyarrow.csv.write_csv(pa.table(columns, names=table.column_names), buffer, options)
    return buffer.getvalue()


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise InputError(
            "a PostgreSQL sink needs psycopg: pip install 'keyspread[postgres]'"
        ) from error
    return psycopg


def _identifier(name: str) -> Identifier:
    from psycopg.sql import Identifier

    return Identifier(name)


def _names(names: Iterable[str]) -> Composed:
    from psycopg.sql import SQL

    return SQL(", ").join(map(_identifier, names))


def _reason(error: Exception) -> str:
    """The first line of PostgreSQL's own words."""
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)[:200]
