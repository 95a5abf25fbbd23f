"""`keyspread advise`: which partitioner suits a stream, from a bounded sample of it.

`sample` reads keys from lines and `topic` from a live topic; `compare` tries every partitioner on
them; `recommend` chooses; `show` lays out.
"""
