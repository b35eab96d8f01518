"""A report as one HTML file: verdict, figures, picture, tables; no script, no other file, good on paper.

Role.   `page` is the frame of both reports; `tiles`, `table` and `section` make its body.
Rules.  * Cells are escaped here. `section` takes HTML: from these functions, or a picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from semel.drawing import palette

_STYLE = (
    palette.variables() + f"body{{font:15px/1.55 {palette.FONT};"
    "color:var(--ink);background:var(--surface);max-width:1040px;margin:2.5rem auto 4rem;padding:0 1.2rem}"
    "h1{font-size:1.9rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2.4rem 0 .7rem}"
    "h3{font-size:1rem;margin:1.4rem 0 .4rem}p.lead{color:var(--muted);margin:0 0 1.6rem}"
    ".mark{display:inline-block;border:2px solid;border-radius:.5rem;padding:0 .55rem;margin-right:.6rem;font-size:1.3rem}"
    ".good .mark{color:var(--blue)}.bad .mark{color:var(--orange)}"
    ".tiles{display:flex;flex-wrap:wrap;gap:.7rem;margin:0 0 1.4rem;padding:0;list-style:none}"
    ".tiles li{flex:1 1 8rem;background:var(--panel);border:1px solid var(--grid);border-radius:.5rem;padding:.6rem .9rem}"
    ".tiles b{display:block;font-size:1.45rem;font-variant-numeric:tabular-nums;line-height:1.3}"
    ".tiles span{color:var(--muted)}.tiles .bad b{color:var(--orange)}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%}caption{text-align:left;color:var(--muted);padding-bottom:.5rem}"
    "th,td{padding:.32rem .9rem .32rem 0;border-bottom:1px solid var(--grid);text-align:left;vertical-align:top}"
    "th{font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums}tr.bad td{color:var(--orange);font-weight:600}"
    "svg{max-width:100%;height:auto;display:block}figure{margin:0;border:1px solid var(--grid);border-radius:.5rem;overflow:hidden}"
    "pre,code{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',monospace}"
    "pre{background:var(--panel);border:1px solid var(--grid);border-radius:.5rem;padding:.8rem 1rem;overflow:auto;white-space:pre-wrap}"
    "footer{margin-top:2.6rem;color:var(--muted)}footer code{color:var(--ink)}"
    "@media print{body{margin:0;max-width:none}h2,figure,tr{break-inside:avoid}}"
)


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure that a reader must see first."""

    value: str
    name: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Cells:
    """One row of a table."""

    cells: Sequence[str]
    bad: bool = False


def page(title: str, verdict: str, lead: str, body: Sequence[str], foot: str, *, good: bool) -> str:
    """The file's text. `foot` is HTML."""
    mark = "✓" if good else "✗"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n<main>\n"
        f'<h1 class="{"good" if good else "bad"}"><span class="mark" aria-hidden="true">{mark}</span>{escape(verdict)}</h1>\n'
        f'<p class="lead">{escape(lead)}</p>\n'
        + "\n".join(body)
        + f"\n</main>\n<footer>{foot}</footer></body></html>\n"
    )


def section(heading: str, *parts: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>\n" + "\n".join(parts) + "</section>"


def figure(svg: str) -> str:
    return f"<figure>{svg}</figure>"


def tiles(shown: Sequence[Tile]) -> str:
    rows = "".join(
        f"<li{' class=bad' if one.bad else ''}><b>{escape(one.value)}</b><span>{escape(one.name)}</span></li>"
        for one in shown
    )
    return f'<ul class="tiles">{rows}</ul>'


def table(caption: str, heads: Sequence[str], rows: Sequence[Cells], numbers: Sequence[int] = ()) -> str:
    """A table. `numbers` are the columns that stand to the right."""

    def line(tag: str, cells: Sequence[str], bad: bool) -> str:
        made = "".join(
            f"<{tag}{' class=n' if place in numbers else ''}>{escape(cell)}</{tag}>"
            for place, cell in enumerate(cells)
        )
        return f"<tr{' class=bad' if bad else ''}>{made}</tr>"

    head = line("th", heads, False)
    body = "\n".join(line("td", row.cells, row.bad) for row in rows)
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="wide"><table>{told}<thead>{head}</thead><tbody>\n{body}\n</tbody></table></div>'


def lines(text: Sequence[str]) -> str:
    """Text as it stands."""
    return f"<pre>{escape(chr(10).join(text))}</pre>"
