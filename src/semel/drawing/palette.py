"""Colors by name, for paper and for a dark screen, and the patterns of areas.

Role.   Marks carry names (`f-blue` fills, `k-blue` strokes); `style` is the sheet that gives them their colors, `pattern` a definition
        of one pattern. `variables` gives pages the same colors.
Rules.  * Texts are drawn in INK, MUTED and the series' colors: each has a contrast of 4.5 to SURFACE in both schemes. GRID is for lines
          that nobody needs to see.
"""

from typing import Final, NamedTuple


class Color(NamedTuple):
    """One color in both schemes."""

    light: str
    dark: str


SURFACE, INK, MUTED, GRID, PANEL = "surface", "ink", "muted", "grid", "panel"
BLUE, ORANGE, TEAL, PURPLE, GREY = "blue", "orange", "teal", "purple", "grey"
COLORS: Final = {
    SURFACE: Color("#ffffff", "#0d1117"),
    PANEL: Color("#f6f8fa", "#161b22"),
    INK: Color("#1f2328", "#e6edf3"),
    MUTED: Color("#59636e", "#9198a1"),
    GRID: Color("#d1d9e0", "#30363d"),
    BLUE: Color("#0a5cc2", "#6cb0ff"),
    ORANGE: Color("#a8480b", "#f0a35e"),
    TEAL: Color("#0b705b", "#4cc9a4"),
    PURPLE: Color("#7a3fc4", "#c3a1ff"),
    GREY: Color("#6e7781", "#8b949e"),
}
"""Blue and orange stay apart for every kind of sight; the others are for lines that also differ in their dash."""
FONT: Final = '-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Liberation Sans",sans-serif'
_DARK: Final = "@media screen and (prefers-color-scheme:dark)"

HATCHED, DOTTED, CROSSED, STRIPED = "hatched", "dotted", "crossed", "striped"
_PATTERNS: Final = {
    HATCHED: '<path d="M-2,8L8,-2M0,10L10,0M6,12L12,6" class="k-{color}" stroke-width="1.6" stroke-opacity="0.55"/>',
    DOTTED: '<circle cx="2.5" cy="2.5" r="1.1" class="f-{color}" fill-opacity="0.65"/>'
    '<circle cx="7.5" cy="7.5" r="1.1" class="f-{color}" fill-opacity="0.65"/>',
    CROSSED: '<path d="M0,0L10,10M10,0L0,10" class="k-{color}" stroke-width="1" stroke-opacity="0.5"/>',
    STRIPED: '<path d="M0,2.5H10M0,7.5H10" class="k-{color}" stroke-width="1.4" stroke-opacity="0.5"/>',
}


def style() -> str:
    """The sheet of a picture."""
    light = "".join(_rules(name, color.light) for name, color in COLORS.items())
    dark = "".join(_rules(name, color.dark) for name, color in COLORS.items())
    return f"<style>.t{{font-family:{FONT}}}{light}{_DARK}{{{dark}}}</style>"


def variables() -> str:
    """The same colors as variables of a page."""
    light = "".join(f"--{name}:{color.light};" for name, color in COLORS.items())
    dark = "".join(f"--{name}:{color.dark};" for name, color in COLORS.items())
    return f":root{{color-scheme:light dark;{light}}}{_DARK}{{:root{{{dark}}}}}"


def pattern(name: str, color: str, identity: str) -> str:
    """The definition of a pattern, to be filled with as `url(#identity)`."""
    return (
        f'<pattern id="{identity}" width="10" height="10" patternUnits="userSpaceOnUse">'
        f'<rect width="10" height="10" class="f-{color}" fill-opacity="0.1"/>{_PATTERNS[name].format(color=color)}</pattern>'
    )


def _rules(name: str, color: str) -> str:
    return f".f-{name}{{fill:{color}}}.k-{name}{{stroke:{color}}}"
