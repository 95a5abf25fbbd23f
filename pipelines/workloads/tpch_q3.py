"""TPC-H Q3: the ten unshipped orders of most revenue, joined where lines are parsed.

Orders and customers change slowly and lineitem streams, so the parser holds the orders of the
segment in memory (of every order its key, and of those of the query date and priority) and joins
each line on its way into the topic: what is not part of the query costs no message, and partitions
are filled by what is aggregated. A line whose order is not in the table is rejected. See
docs/decisions.

TPC-H 3.0.1, section 2.4.3; Holistic (VLDB 2017), section 5.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from partitioners.errors import InputError
from pipelines.aggregates import Aggregates, Sum
from pipelines.text_input import RejectedLine, read_chunks
from pipelines.workloads.base import DATA, Emit, Int64s
from pipelines.workloads.delimited import DAY_MS, REASON, ROW, Column, Layout, date_ms, integer
from pipelines.workloads.tpch import Lineitem, lineitem_layout, midnight_ms

if TYPE_CHECKING:
    import duckdb

SEGMENT = "BUILDING"
DATE = "1995-03-15"
_CUSTOMER = Layout(
    8,
    {
        "c_custkey": Column(0, integer, "c_custkey is no integer"),
        "c_mktsegment": Column(6, lambda text: text, "c_mktsegment is missing"),
    },
    "|",
    True,
)
_ORDERS = Layout(
    9,
    {
        "o_orderkey": Column(0, integer, "o_orderkey is no integer"),
        "o_custkey": Column(1, integer, "o_custkey is no integer"),
        "o_orderdate": Column(4, date_ms, "o_orderdate is no date YYYY-MM-DD"),
        "o_shippriority": Column(7, integer, "o_shippriority is no integer"),
    },
    "|",
    True,
)
_TEXT = "VARCHAR"
_SQL_COLUMNS = {
    "orders": {
        "o_orderkey": "BIGINT",
        "o_custkey": "BIGINT",
        "o_orderstatus": _TEXT,
        "o_totalprice": _TEXT,
        "o_orderdate": "DATE",
        "o_orderpriority": _TEXT,
        "o_clerk": _TEXT,
        "o_shippriority": "BIGINT",
        "o_comment": _TEXT,
        "o_end": _TEXT,
    },
    "customer": {
        "c_custkey": "BIGINT",
        **{f"c_{i}": _TEXT for i in range(1, 6)},
        "c_mktsegment": _TEXT,
        "c_comment": _TEXT,
        "c_end": _TEXT,
    },
}
# Date, order, priority: in the order of these texts the query breaks ties.
_KEY = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[|][0-9]{12}[|][0-9]{1,9}$"


@dataclass(frozen=True)
class OrderTable:
    """The orders, by key in ascending order.

    Attributes:
        keys: int64[n].
        group: What their lines are grouped by, as text; null where the query does not want them.
    """

    keys: Int64s
    group: pl.Series

    def find(self, keys: Int64s) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        """Where orders stand, and whether they are there."""
        if not len(self.keys):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), dtype=bool)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return places, self.keys[places] == keys


def load_orders(orders: str, customer: str) -> OrderTable:
    """Read both tables, and keep what Q3 needs.

    Args:
        orders: `orders.tbl`, plain or gzip.
        customer: `customer.tbl`.

    Raises:
        InputError: A file or a line does not read.
    """
    paths = [Path(path) for path in (orders, customer)]
    stamps = [path.stat().st_mtime_ns if path.exists() else 0 for path in paths]
    return _load_orders(orders, customer, *stamps)


@functools.lru_cache(maxsize=2)
def _load_orders(orders: str, customer: str, *_stamps: int) -> OrderTable:
    wanted = _read(customer, "customer", _CUSTOMER).filter(pl.col("c_mktsegment") == SEGMENT)
    is_wanted = pl.col("o_custkey").is_in(wanted["c_custkey"].implode()) & (
        pl.col("o_orderdate") < midnight_ms(DATE)
    )
    # In the order of these texts: by date, then by order key, as the query's ties are.
    group = pl.format(
        "{}|{}|{}",
        pl.from_epoch("o_orderdate", time_unit="ms").dt.strftime("%Y-%m-%d"),
        pl.col("o_orderkey").cast(pl.String).str.zfill(12),
        "o_shippriority",
    )
    table = (
        _read(orders, "orders", _ORDERS)
        .sort("o_orderkey")
        .select("o_orderkey", group=pl.when(is_wanted).then(group))
    )
    return OrderTable(table["o_orderkey"].to_numpy(), table["group"])


def _read(path: str, option: str, layout: Layout) -> pl.DataFrame:
    """The columns of a table; a line that does not read ends it."""

    def refuse(line: RejectedLine) -> None:
        raise InputError(
            f"line {line.line_number} of {path} is none of the table {option}: {line.reason}; name "
            f"the right file with --workload-option {option}=PATH"
        )

    parts = []
    for chunk in read_chunks(path, refuse):
        frame = layout.read(chunk.lines)
        for row, reason in frame.select(ROW, REASON).drop_nulls(REASON).iter_rows():
            number = chunk.first_line_number + row
            refuse(RejectedLine(path, number, reason, chunk.lines[row]))
        parts.append(frame.select(*layout.columns))
    return pl.concat(parts)


class TpchQ3(Lineitem):
    """Revenue of orders placed before 1995-03-15, of what was shipped after it.

    Args:
        whole: One window of 20 years, for TPC's own answer.
        orders: The file `orders.tbl` that belongs to the input; left out: the one that ships.
        customer: The same for `customer.tbl`.
    """

    # data
    name: ClassVar[str] = "tpch-q3"
    default_window_ms = 90 * DAY_MS
    default_emit: ClassVar[Emit] = "top"

    def __init__(
        self, whole: bool = False, orders: str | None = None, customer: str | None = None
    ) -> None:
        super().__init__(whole)
        self.orders = str(orders or DATA / "tpch" / "orders.tbl.gz")
        self.customer = str(customer or DATA / "tpch" / "customer.tbl.gz")

    # parse
    layout: ClassVar[Layout] = lineitem_layout(
        "l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"
    )
    carried: ClassVar[tuple[str, ...]] = ("revenue",)

    def complete(self, lines: pl.DataFrame) -> pl.DataFrame:
        """See `DelimitedWorkload`; joins the orders."""
        table = load_orders(self.orders, self.customer)
        places, found = table.find(lines["l_orderkey"].fill_null(-1).to_numpy())
        missing = pl.format("no order {} in " + self.orders, "l_orderkey")
        return lines.with_columns(
            table.group.gather(places).alias("key"), pl.Series("found", found)
        ).with_columns(
            pl.when(pl.col(REASON).is_null() & ~pl.col("found"))
            .then(missing)
            .otherwise(REASON)
            .alias(REASON)
        )

    def select(self, lines: pl.DataFrame, lines_before: int) -> pl.DataFrame:  # noqa: ARG002
        """See `DelimitedWorkload`."""
        wanted = pl.col("key").is_not_null() & (pl.col("l_shipdate") > midnight_ms(DATE))
        return lines.filter(wanted).select(
            "key",
            timestamp_ms="l_shipdate",
            revenue=pl.col("l_extendedprice") * (100 - pl.col("l_discount")),
        )

    def valid_keys(self, keys: pa.Array) -> npt.NDArray[np.bool_] | None:
        """See `Workload`."""
        matches = pc.match_substring_regex(keys, _KEY).fill_null(False)
        found: npt.NDArray[np.bool_] = matches.to_numpy(zero_copy_only=False)
        return None if found.all() else found

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("l_orderkey", pa.int64()),
        pa.field("o_orderdate", pa.date32()),
        pa.field("o_shippriority", pa.int64()),
    )
    value_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("revenue", pa.decimal128(38, 4)),)
    aggregates: Aggregates = Aggregates(Sum("revenue", "revenue"), order_by=("revenue",))

    def finish_keys(self, keys: pa.Array) -> list[pa.Array]:
        """See `Workload`."""
        parts = pc.split_pattern(keys.cast(pa.string()), "|")
        columns = zip(self.key_fields, (1, 0, 2), strict=True)
        return [pc.list_element(parts, place).cast(field.type) for field, place in columns]

    # oracle
    def oracle_records(self, connection: duckdb.DuckDBPyConnection, lines: str) -> str:
        """See `Workload`."""
        for table, path in (("orders", self.orders), ("customer", self.customer)):
            connection.execute(
                f"CREATE TABLE {table} AS SELECT * FROM read_csv($path, delim = '|', "
                "header = false, quote = '', escape = '', auto_detect = false, "
                f"null_padding = true, columns = {_SQL_COLUMNS[table]})",
                {"path": path},
            )
        return f"""
            SELECT row_number() OVER (ORDER BY line_number) - 1 AS record_index,
                   epoch_ms(l_shipdate::TIMESTAMP) AS timestamp_ms, l_orderkey, o_orderdate,
                   o_shippriority, l_extendedprice, l_discount
            FROM ({self.lineitem_sql(lines)})
            JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
            WHERE c_mktsegment = '{SEGMENT}' AND o_orderdate < DATE '{DATE}'
              AND l_shipdate > DATE '{DATE}'
        """

    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        return {"revenue": "sum(l_extendedprice * (1 - l_discount))"}

    def oracle_order(self) -> str:
        """See `Workload`."""
        return "revenue DESC, o_orderdate"
