"""Small drawing functions: numbers to SVG.

Owns scales and shapes. Colours are CSS classes of the page, so that one drawing is right on a light screen,
on a dark one and on paper.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

Point = tuple[float, float]


class Box(NamedTuple):
    """A rectangle; y grows downwards."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


class Scale(NamedTuple):
    """Values to places, linear or logarithmic."""

    low: float
    high: float
    start: float  # the place of ``low``
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
        share = (value - low) / (high - low) if high > low else 0.0
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def nice_step(span: float, steps: int) -> float:
    """1, 2 or 5 times a power of ten, so that at most that many fit in."""
    rough = span / max(steps, 1)
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough * 0.999999)


def ticks(low: float, high: float, steps: int) -> list[float]:
    step = nice_step(high - low, steps)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [10.0**power for power in powers if low <= 10.0**power <= high]


def number(value: float) -> str:
    """Short: 1200 → 1,200; 0.5 → 0.5; 25000 → 25k."""
    if abs(value) >= 10_000:
        return f"{value / 1000:,.10g}k"
    return f"{value:,.10g}"


def tag(name: str, content: str = "", **attributes: object) -> str:
    """Attributes: ``stroke_width`` becomes ``stroke-width``, ``class_`` becomes ``class``."""
    words = [f' {_name(key)}="{_value(value)}"' for key, value in attributes.items()]
    return f"<{name}{''.join(words)}>{content}</{name}>" if content else f"<{name}{''.join(words)}/>"


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-") if key != "viewBox" else key


def _value(value: object) -> str:
    return place(value) if isinstance(value, float) else escape(str(value), quote=True)


def place(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: str, class_: str, anchor: str = "start") -> str:
    return tag("text", escape(words), x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def rect(box: Box, class_: str, title: str = "") -> str:
    inner = f"<title>{escape(title)}</title>" if title else ""
    return tag(
        "rect", inner, x=float(box.left), y=float(box.top), width=float(max(box.width, 0.0)),
        height=float(max(box.height, 0.0)), class_=class_,
    )  # fmt: skip


def path(points: Iterable[Point | None], class_: str) -> str:
    """A line through the points; None breaks it."""
    words = []
    begins = True
    for point in points:
        if point is None:
            begins = True
            continue
        words.append(f"{'M' if begins else 'L'}{place(point[0])} {place(point[1])}")
        begins = False
    return tag("path", d="".join(words), class_=class_) if words else ""


def area(points: Sequence[Point], bottom: float, class_: str) -> str:
    """Between the points and a level."""
    if not points:
        return ""
    along = "".join(f"L{place(x)} {place(y)}" for x, y in points)
    start, end = points[0][0], points[-1][0]
    return tag(
        "path", d=f"M{place(start)} {place(bottom)}{along}L{place(end)} {place(bottom)}Z", class_=class_
    )


def drawing(width: float, height: float, parts: Iterable[str], label: str) -> str:
    label = escape(label, quote=True)
    view = f"0 0 {place(width)} {place(height)}"
    return f'<svg viewBox="{view}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
