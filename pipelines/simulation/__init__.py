"""What ``keyspread simulate`` shows: tables, charts, pages, and the papers' own experiments.

The simulation itself is ``partitioners.simulation``. ``inputs`` turns options into settings;
``tables`` is for terminals, ``page`` and ``charts`` for HTML; ``papers`` has one module per paper,
and ``reproduction`` writes them as Markdown.
"""
