"""Pages that people open in a browser: one file each, without a network.

`frame` is the page around and its style, `charts` and `heat_map` draw, `sortable` is a table whose
columns sort. Each returns HTML text with everything from outside escaped.
"""
