"""How wide a text is, and how numbers and times are written on an axis.

Role.   Whoever places a label asks `width` first, and may have it `wrapped` or `shortened`.
Rules.  * Widths are upper bounds: the wider of Arial's and DejaVu Sans' letters. A label that fits here fits in every font of `palette`.
"""

from typing import Final

_WIDTHS: Final = {
    28: "'ijl",
    30: "I",
    34: " ,./:;\\|·",
    36: "-f",
    39: "()[]t",
    42: "!r",
    46: '"',
    52: "*J`°s",
    56: "cz?L_–",
    60: "kvxy",
    64: "0123456789$FTabdeghnopqu{}µ",
    68: "EKPSY",
    70: "ABVXZ",
    74: "CRU",
    76: "HN",
    80: "&DGOQ",
    84: "w#+<=>^~÷×≥≤",
    88: "M",
    100: "%mW",
}
_WIDTH_OF: Final = {letter: width / 100 for width, letters in _WIDTHS.items() for letter in letters}
_WIDEST: Final = 1.05
_BOLD: Final = 1.13
_MINUTES_FROM: Final = 300
_SHORT_FROM: Final = 10_000


def width(text: str, size: float, *, bold: bool = False) -> float:
    """At most so many units."""
    letters = sum(_WIDTH_OF.get(letter, _WIDEST) for letter in text)
    return letters * size * (_BOLD if bold else 1.0)


def shortened(text: str, size: float, room: float, *, bold: bool = False) -> str:
    """The text, or as much of its beginning as fits, with an ellipsis."""
    if width(text, size, bold=bold) <= room:
        return text
    while text and width(text + "…", size, bold=bold) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def wrapped(text: str, size: float, room: float, *, bold: bool = False) -> list[str]:
    """The text in lines, broken between words; a word that is too long alone is shortened."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width(longer, size, bold=bold) <= room:
            lines[-1] = longer
        else:
            lines.append(shortened(word, size, room, bold=bold))
    return lines


def balanced(text: str, size: float, room: float) -> list[str]:
    """The text in as few lines as `wrapped` needs, of lengths as equal as may be."""
    best = wrapped(text, size, room)
    narrower = room - size
    while (
        narrower > size and len(lines := wrapped(text, size, narrower)) <= len(best) and _whole(lines, text)
    ):
        best, narrower = lines, narrower - size
    return best


def _whole(lines: list[str], text: str) -> bool:
    return " ".join(lines) == " ".join(text.split())


def number(value: float) -> str:
    """A count as a tick says it: 950, 4,000, 12k, 1.5M."""
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(factor, _SHORT_FROM):
            return f"{value / factor:.4g}{unit}"
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def seconds(value: float, end: float) -> str:
    """A moment of a run that lasts until `end`."""
    return f"{value:g} s" if end < _MINUTES_FROM else f"{value / 60:g} min"
