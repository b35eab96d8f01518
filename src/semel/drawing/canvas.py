"""One SVG picture: its marks, the words for those who do not see it, and the sheet for light and dark.

Role.   Everything that is drawn goes through a `Canvas`; `svg` is the file's text.
Rules.  * A picture has a title and a description, and points at both (`role="img"`, `aria-labelledby`).
        * Identities begin with the picture's name: two pictures can stand in one page.
"""

from collections.abc import Iterable
from html import escape
from typing import Final

from semel.drawing import palette

SIZE: Final = 12
"""Of a text that does not say otherwise."""


class Canvas:
    """A picture that grows mark by mark. `height` may be set until it is read."""

    def __init__(self, name: str, width: float, title: str, description: str) -> None:
        self.name, self.width, self.height = name, width, 0.0
        self._title, self._description = title, description
        self._marks: list[str] = []
        self._patterns: dict[str, str] = {}

    def svg(self) -> str:
        """The picture, as the text of an SVG file."""
        around = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {around} width="{self.width:g}" height="{self.height:g}" role="img" '
            f'aria-labelledby="{self.name}-title {self.name}-desc" class="t" font-size="{SIZE}">'
        )
        parts = [
            head,
            f'<title id="{self.name}-title">{escape(self._title)}</title>',
            f'<desc id="{self.name}-desc">{escape(self._description)}</desc>',
            palette.style(),
            *([f"<defs>{''.join(self._patterns.values())}</defs>"] if self._patterns else []),
            f'<rect width="{self.width:g}" height="{self.height:g}" class="f-surface"/>',
        ]
        return "\n".join([*parts, *self._marks, "</svg>\n"])

    def pattern(self, pattern: str, color: str) -> str:
        """What to fill with to have the pattern."""
        identity = f"{self.name}-{pattern}-{color}"
        self._patterns.setdefault(identity, palette.pattern(pattern, color, identity))
        return f"url(#{identity})"

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        color: str = palette.INK,
        size: float = SIZE,
        bold: bool = False,
        anchor: str = "start",
    ) -> None:
        """One line of text on its baseline."""
        more = "" if size == SIZE else f' font-size="{size:g}"'
        more += ' font-weight="600"' if bold else ""
        more += "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._marks.append(f'<text x="{x:.1f}" y="{y:.1f}" class="f-{color}"{more}>{escape(text)}</text>')

    def line(
        self, x1: float, y1: float, x2: float, y2: float, color: str, width: float = 1.0, dash: str = ""
    ) -> None:
        more = f' stroke-dasharray="{dash}"' if dash else ""
        self._marks.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="k-{color}" stroke-width="{width:g}"{more}/>'
        )

    def polyline(
        self, places: Iterable[tuple[float, float]], color: str, width: float = 1.8, dash: str = ""
    ) -> None:
        more = f' stroke-dasharray="{dash}"' if dash else ""
        self._marks.append(
            f'<polyline points="{_points(places)}" fill="none" class="k-{color}" stroke-width="{width:g}" '
            f'stroke-linejoin="round"{more}/>'
        )

    def polygon(self, places: Iterable[tuple[float, float]], color: str, opacity: float = 1.0) -> None:
        self._marks.append(
            f'<polygon points="{_points(places)}" class="f-{color}" fill-opacity="{opacity:g}"/>'
        )

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        color: str = "",
        fill: str = "",
        edge: str = "",
        tip: str = "",
        opacity: float = 1.0,
    ) -> None:
        """A rectangle in a color, or filled with a pattern; `tip` is shown to a pointer."""
        classes = " ".join([*([f"f-{color}"] if color else []), *([f"k-{edge}"] if edge else [])])
        more = f' class="{classes}"' if classes else ""
        more += f' fill="{fill or "none"}"' if not color else ""
        more += f' opacity="{opacity:g}"' if opacity < 1 else ""
        inner = f"><title>{escape(tip)}</title></rect>" if tip else "/>"
        self._marks.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{more}{inner}'
        )

    def dot(self, x: float, y: float, color: str, radius: float = 4.5) -> None:
        self._marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="f-{color}"/>')

    def diamond(self, x: float, y: float, color: str, radius: float = 5.5) -> None:
        """Hollow, so that it is no dot in grey either."""
        corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
        self._marks.append(
            f'<polygon points="{_points(corners)}" class="f-surface k-{color}" stroke-width="2"/>'
        )


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
