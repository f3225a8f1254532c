"""A scatter plot as SVG: each point with its name beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tokenyard.display.html import element, text

_CHARACTER = 6.4
_LINE = 13.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 14.0, 18.0, 44.0


@dataclass(frozen=True, kw_only=True)
class Point:
    """A thing at (x, y), y above 0. ``paint``: a class of the style sheet."""

    name: str
    x: float
    y: float
    paint: str
    href: str
    is_chosen: bool = False


@dataclass(frozen=True, kw_only=True)
class _Scales:
    """From values to places: x even, y by powers of ten."""

    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        low, high = self.x_range
        return _LEFT + (value - low) / (high - low) * (self.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = map(math.log10, self.y_range)
        share = (math.log10(value) - low) / (high - low)
        return self.height - _BOTTOM - share * (self.height - _TOP - _BOTTOM)


def scatter(
    title: str, description: str, points: Sequence[Point], *, x_title: str, y_title: str, width: int, height: int
) -> str:
    """Points on a plane; right and above is better. Titles of axes lie inside the picture."""
    xs, ys = [p.x for p in points], [p.y for p in points]
    step = _step(max(xs) - min(0.0, min(xs)))
    x_range = 0.0, math.ceil(max(xs) / step) * step
    y_range = 10.0 ** math.floor(math.log10(min(ys) * 0.9)), 10.0 ** math.ceil(math.log10(max(ys) * 1.1))
    scales = _Scales(width=width, height=height, x_range=x_range, y_range=y_range)
    content = [element("title", text(title)), element("desc", text(description))]
    content += _axes(scales, step, x_title, y_title)
    content += _points(scales, points)
    return element("svg", *content, viewBox=f"0 0 {width} {height}", role="img", aria_label=title, class_="scatter")


def _axes(scales: _Scales, step: float, x_title: str, y_title: str) -> list[str]:
    found = []
    bottom, right = scales.height - _BOTTOM, scales.width - _RIGHT
    for power in range(round(math.log10(scales.y_range[0])), round(math.log10(scales.y_range[1])) + 1):
        y = scales.y(10.0**power)
        found.append(element("line", x1=_LEFT, x2=f"{right:g}", y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid"))
        found.append(_text(_LEFT - 7, y + 4, f"{10.0**power:,g}", "tick", "end"))
    for i in range(round(scales.x_range[1] / step) + 1):
        x = scales.x(i * step)
        found.append(element("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=_TOP, y2=f"{bottom:g}", class_="grid"))
        found.append(_text(x, bottom + 17, f"{i * step:g}x", "tick", "middle"))
    found.append(_text(right, scales.height - 8, x_title, "axis", "end"))
    found.append(_text(4, 11, y_title, "axis", "start"))
    return found


def _points(scales: _Scales, points: Sequence[Point]) -> list[str]:
    places = [(scales.x(p.x), scales.y(p.y)) for p in points]
    taken = [(x - 7, y - 7, x + 7, y + 7) for x, y in places]
    found = []
    # The best find room first.
    for i in sorted(range(len(points)), key=lambda i: (not points[i].is_chosen, places[i][1])):
        point, (x, y) = points[i], places[i]
        label_x, label_y, anchor, box = _room(scales, point.name, x, y, taken)
        taken.append(box)
        dot = element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=6, class_=f"point {point.paint}")
        label = _text(label_x, label_y, point.name, "label strong" if point.is_chosen else "label", anchor)
        found.append(element("a", dot, label, href=point.href))
    return found


_Box = tuple[float, float, float, float]


def _room(scales: _Scales, name: str, x: float, y: float, taken: Sequence[_Box]) -> tuple[float, float, str, _Box]:
    """Where a name fits: beside its point, above, below or farther off; where it hides least, if nowhere."""
    size = len(name) * _CHARACTER
    candidates: list[tuple[float, float, str, _Box]] = []
    for far in (0.0, _LINE, -_LINE, 2 * _LINE, -2 * _LINE):
        for anchor, at in (("start", x + 10), ("end", x - 10)):
            left = at if anchor == "start" else at - size
            candidates.append((at, y + 4 + far, anchor, (left, y - 6 + far, left + size, y + 7 + far)))
    for far in (-11.0, 20.0):
        candidates.append((x, y + far, "middle", (x - size / 2, y + far - 10, x + size / 2, y + far + 3)))
    inside = [c for c in candidates if c[3][0] >= 0 and c[3][2] <= scales.width and c[3][1] >= 0]
    return min(inside or candidates, key=lambda c: sum(_overlap(c[3], box) for box in taken))


def _overlap(a: _Box, b: _Box) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0.0


def _step(span: float) -> float:
    """A round distance between ticks, of which four to eight make the span."""
    rough = (span or 1.0) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)


def _text(x: float, y: float, said: str, class_: str, anchor: str) -> str:
    return element("text", text(said), x=f"{x:.1f}", y=f"{y:.1f}", class_=class_, text_anchor=anchor)
