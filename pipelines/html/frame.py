"""The page around what is shown: head, style for light, dark and paper, colours of the series."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

# Each is told from the panel behind it at 3:1 or more, in its theme; neighbours differ in hue and
# lightness, the first eight for colour-blind readers too. Dashes tell lines apart without colour.
# fmt: off
LIGHT_SERIES = (
    "#0072b2", "#b36b00", "#007a58", "#b1498a", "#c44e00", "#3a86b7",
    "#6d4fb3", "#8a5b12", "#4b7d12", "#c2186f", "#666666", "#7a6b00",
)
DARK_SERIES = (
    "#4aa8e8", "#f0b030", "#2fc79a", "#e59bc4", "#ff8c4a", "#8fd0f5",
    "#b49ce0", "#d0a050", "#9ad050", "#ff6fb0", "#b0b0b0", "#d8cc40",
)
# fmt: on
LIGHT = {
    "back": "#ffffff",
    "text": "#1d1f23",
    "faint": "#5d636c",
    "line": "#dfe2e7",
    "panel": "#f6f7f9",
    "link": "#0b5cad",
    "good": "#0a6b3d",
    "bad": "#b3261e",
}
DARK = {
    "back": "#15171b",
    "text": "#e7e9ec",
    "faint": "#a3aab4",
    "line": "#343941",
    "panel": "#1e2126",
    "link": "#8cc2ff",
    "good": "#6fd3a0",
    "bad": "#ff8f86",
}


def _variables(theme: dict[str, str], series: Sequence[str]) -> str:
    named = [f"--{name}: {colour};" for name, colour in theme.items()]
    numbered = [f"--c{number}: {colour};" for number, colour in enumerate(series)]
    return " ".join(named + numbered)


# On paper a head repeats on each page, with its words but no button: there they stand alone.
STYLE = (
    f"""
:root {{ color-scheme: light dark; {_variables(LIGHT, LIGHT_SERIES)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK, DARK_SERIES)} }} }}
@media print {{ :root {{ color-scheme: light; {_variables(LIGHT, LIGHT_SERIES)} }} }}
"""
    """
* { box-sizing: border-box; }
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 1240px; padding: 24px; }
h1 { font-size: 1.6em; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { margin: 36px 0 8px; font-size: 1.2em; } h3 { margin: 20px 0 6px; font-size: 1em; }
p { max-width: 80ch; } .faint { color: var(--faint); } a { color: var(--link); }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
.verdict { border-left: 4px solid var(--c0); font-size: 1.08em; padding: 4px 14px; }
.verdict.bad { border-color: var(--bad); font-weight: 500; }
.verdict.good { border-color: var(--good); }
.scroll { margin-bottom: 16px; overflow-x: auto; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
caption { color: var(--faint); padding-bottom: 4px; text-align: left; }
caption span { display: block; left: 0; max-width: min(80ch, 100vw - 60px);
  position: sticky; width: max-content; }
th, td { padding: 4px 9px; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; } thead th { background: var(--panel); position: sticky; top: 0; }
tbody th { background: var(--back); font-weight: 500; left: 0; position: sticky; }
th.left, td.left { text-align: left; }
th button { background: none; border: 0; color: inherit; cursor: pointer; font: inherit;
  margin: -4px -9px; padding: 4px 9px; } th button:hover { text-decoration: underline; }
th button::after { color: var(--faint); content: " \\2195"; }
th[aria-sort=ascending] button::after { color: inherit; content: " \\2191"; }
th[aria-sort=descending] button::after { color: inherit; content: " \\2193"; }
details { font-size: 13px; margin: 4px 0 12px; }
summary { color: var(--link); cursor: pointer; width: fit-content; }
dl { display: grid; gap: 2px 16px; grid-template-columns: max-content 1fr; } dd { margin: 0; }
.charts { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fit, minmax(min(430px, 100%), 1fr)); }
section { content-visibility: auto; contain-intrinsic-size: auto 900px; }
figure { background: var(--panel); border-radius: 8px; margin: 0; min-width: 0; overflow-x: auto;
  padding: 12px; }
figcaption { font-weight: 600; margin-bottom: 4px; } figure svg { width: 100%; height: auto; }
.heat { display: grid; gap: 2px 6px; grid-template-columns: auto 1fr; font-size: 11px;
  color: var(--faint); } .heat img { border: 1px solid var(--line); height: 120px;
  image-rendering: pixelated; width: 100%; } .heat .rows { display: flex; flex-direction: column;
  justify-content: space-between; text-align: right; }
.heat .ends { display: flex; grid-column: 2; justify-content: space-between; }
.scale { height: 10px; image-rendering: pixelated; vertical-align: middle; width: 160px; }
.grid { stroke: var(--line); } .axis { stroke: var(--faint); }
.tick, .label, .name { fill: var(--faint); font-size: 11px; } .name { fill: var(--text); }
.line { fill: none; stroke-width: 2; } .legend { display: flex; flex-wrap: wrap; gap: 4px 18px;
  list-style: none; padding: 0; } .legend li { display: flex; gap: 6px; align-items: center; }
.hidden { clip-path: inset(50%); height: 1px; overflow: hidden; position: absolute; width: 1px; }
@media (max-width: 520px) { body { padding: 14px; } figure svg { min-width: 460px; } }
@media print { @page { margin: 12mm; size: A4 landscape; }
  body { font-size: 10pt; max-width: none; padding: 0; } table { font-size: 7.5pt; }
  th, td { padding: 2px 4px; } thead { display: table-header-group; }
  thead th, tbody th { position: static; } .scroll, figure { overflow: visible; }
  section { content-visibility: visible; } h2, h3, .key { break-after: avoid; }
  tr, figure, .verdict { break-inside: avoid; } figure { border: 1px solid var(--line); }
  .charts { grid-template-columns: 1fr 1fr; }
  th button { display: contents; } th button::after { content: ""; }
  details:not([open]) { display: none; } }
"""
    + "\n".join(
        f".line.c{n} {{ stroke: var(--c{n}); }} .dot.c{n}, .bar.c{n} {{ fill: var(--c{n}); }}"
        for n in range(len(LIGHT_SERIES))
    )
    + "\n.c4, .c5, .c6, .c7 { stroke-dasharray: 7 3; } "
    ".c8, .c9, .c10, .c11 { stroke-dasharray: 2 3; }\n"
)


def document(title: str, body: str, script: str = "") -> str:
    """Put a page around its body.

    Args:
        title: Of the window.
        body: HTML.
        script: JavaScript to run at the end; none where nothing moves.

    Returns:
        HTML that loads nothing from elsewhere.
    """
    moving = f"<script>{script}</script>" if script else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main>"
        f"{moving}</body></html>\n"
    )
