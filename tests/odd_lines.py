"""Odd input of the delimited workloads: lines, and what is said of those that are no records."""

from __future__ import annotations

EVENT = "5000000,,6251537638,{index},3313055599,4,328,{scheduling_class},2,{cpu},0.08,0.0,0"


def event(cpu: str = "0.025", scheduling_class: str = "0", index: int = 0) -> str:
    return EVENT.format(cpu=cpu, scheduling_class=scheduling_class, index=index)


def taxi(
    medallion: str = "M1",
    dropoff: str = "2013-01-01 00:02:00",
    distance: str = "0.44",
    fare: str = "3.50",
) -> str:
    times = f"2013-01-01 00:00:00,{dropoff},120"
    places = "-73.956528,40.716976,-73.962440,40.715008"
    return f"{medallion},H,{times},{distance},{places},CSH,{fare},0.50,0.50,0.00,0.00,4.50"


def item(
    order: str = "1",
    part: str = "1552",
    quantity: str = "17",
    price: str = "24710.35",
    discount: str = "0.06",
    tax: str = "0.02",
    flags: str = "N|O",
    shipped: str = "1996-03-13",
    end: str = "|",
) -> str:
    numbers = f"{order}|{part}|93|1|{quantity}|{price}|{discount}|{tax}|{flags}"
    return f"{numbers}|{shipped}|1996-02-12|1996-03-22|NONE|TRUCK|egular courts above{end}"


# Each line with the beginning of the reason why it is no record; none: it is one, or ignored.
GCM = [
    (event(), ""),
    ("0,2,3418309,0,4155527081,0,70s3v5qRyCO/1PCdI6f=,3,9,0.5,,,", ""),
    ("9223372036854775807,,3418309,0,,0,u,3,9,0.5,,,", ""),
    ("7999999,,3418314,0,3938719206,0,u,3,9,0.125,0.07446,0.0004244,0", ""),
    ("8000000,,3418314,0,3938719206,0,u,3,9,,,,", ""),
    (event(cpu="0"), ""),
    (event(scheduling_class=""), ""),
    (event(cpu="1.907e-06"), ""),
    (event(cpu="1.91e-08"), "CPU request"),
    (event(cpu="1.9e-8"), ""),
    (event(cpu="2E-9"), ""),
    (event(cpu="2e-10"), "CPU request"),
    (event(cpu="-0.5"), ""),
    (event(cpu="0.0000000001"), "CPU request"),
    (event(cpu="NaN"), "CPU request"),
    (event(cpu="1234567"), "CPU request"),
    (event(cpu=".5"), "CPU request"),
    (event(scheduling_class="two"), "scheduling class"),
    ("5000000,,,0,,4,328,0,2,0.1,,,", "job ID"),
    ("-1,,1,0,,4,328,0,2,0.1,,,", "time"),
    (",,1,0,,4,328,0,2,0.1,,,", "time"),
    ("1000000000000000000,,1,0,,4,328,0,2,0.1,,,", "time"),
    ("99999999999999999999,,1,0,,4,328,0,2,0.1,,,", "time"),
    ("999999999999999999,,1,0,,4,328,0,2,0.1,,,", ""),
    (event() + ",", "14 columns"),
    ("time,missing,job", "3 columns"),
    ("", "1 columns"),
]
TAXI = [
    (taxi(), ""),
    (taxi(medallion=""), "medallion"),
    (taxi(dropoff="2013-01-01 00:02:0"), "drop-off"),
    (taxi(dropoff="2013-02-30 00:00:00"), "drop-off"),
    (taxi(dropoff="1969-12-31 23:59:59"), ""),
    (taxi(fare="-3.5", distance="-0.1"), ""),
    (taxi(fare="+7", distance="+7"), ""),
    (taxi(fare="999999999.99", distance="999999999.99"), ""),
    (taxi(medallion="M\u00fc"), ""),
    ("too,few", "2 columns"),
    (taxi() + ",more", "18 columns"),
]
LINEITEM = [
    (item(), ""),
    (item(end=""), ""),
    (item(quantity="0.01", price="0", discount="0.05"), ""),
    (item(discount="0.07", tax="-0.5", price="-1"), ""),
    (item(shipped="1998-09-02"), ""),
    (item(shipped="1998-09-03"), ""),
    (item(shipped="1994-01-01"), ""),
    (item(shipped="1995-03-16"), ""),
    (item(shipped="1996-02-30"), "l_shipdate"),
    (item(shipped="1996-2-3"), "l_shipdate"),
    (item(shipped=""), "l_shipdate"),
    (item(end="|more|"), "17 columns"),
    ("1|2|3|", "3 columns"),
]
PEOPLE = [
    ("0,00551,1,2,3,4", ""),
    ("0,00551,1,2,3,5", ""),
    ("1000,00551,0,0,0,0", ""),
    ("1000,00551,32767,32767,32767,32767", ""),
    ("-70000,00551,1,2,3,4", ""),
    ("2000,M\u00fcnchen 1,007,2,3,4", ""),
    ("2000,00551,32768,2,3,4", "given is no code"),
    ("2000,00551,1,-1,3,4", "family is no code"),
    ("2000,00551,1,2,,4", "year is no code"),
    ("2000,00551,1,2,3,99999999999999999999", "street is no code"),
    ("2000,,1,2,3,4", "post code is empty"),
    ("NaN,00551,1,2,3,4", "ts is no time"),
    ("1000000000000000,00551,1,2,3,4", "ts is no time"),
    ("1,00551,1,2,3", "5 columns"),
    ("", "1 columns"),
]

CASES: dict[str, list[tuple[str, str]]] = {
    "clustering": PEOPLE,
    "gcm-q1": GCM,
    "gcm-q2": GCM,
    "debs-fare": [*TAXI, (taxi(fare="3.505"), "fare amount"), (taxi(fare=""), "fare amount")],
    "debs-q2": [
        *TAXI,
        (taxi(fare="3.505"), "fare amount"),
        (taxi().replace("0.00,0.00,4.50", "x,0.00,4.50"), "tip amount"),
        (taxi().replace("-73.956528", "-73.9565281"), "a coordinate"),
        (taxi().replace("-73.956528", "0"), ""),
        (taxi(dropoff="2013-01-01 00:09:00").replace("-73.956528", "+74"), ""),
    ],
    "debs-distance": [*TAXI, (taxi(distance="x"), "trip distance"), (taxi(fare="x"), "")],
    "tpch-q1": [
        *LINEITEM,
        (item(flags="A|F", tax="0.081"), "l_tax"),
        (item(flags="AB|F"), "l_returnflag"),
        (item(flags="A|"), "l_linestatus"),
        (item(flags="R|F", order="x"), ""),
    ],
    "tpch-q6": [*LINEITEM, (item(price="1e3"), "l_extendedprice"), (item(discount="12"), "l_disc")],
    "tpch-parts": [*LINEITEM, (item(part=""), "l_partkey"), (item(part="-7"), "")],
    "tpch-q3": [
        *LINEITEM,
        # An order of a customer of that segment, from before that date; and one that is not there.
        (item(order="7", shipped="1995-03-16"), ""),
        *((item(order=str(order), shipped="1995-04-01"), "") for order in (6, 33, 66, 386)),
        (item(order="386", shipped="1995-03-15"), ""),
        (item(order="8"), "no order 8 in "),
        (item(order="60001"), "no order 60001 in "),
    ],
}
LINES = {name: [line for line, _ in cases] for name, cases in CASES.items()}
