"""Figures as people read them: three digits and a unit that fits."""

from __future__ import annotations

from tokenyard.bench.metrics import METRICS

_STEPS = {"bytes": ("B", "kB", "MB", "GB", "TB"), "µs": ("µs", "ms", "s")}


def short(key: str, value: float) -> str:
    """A figure of a metric with its unit, as 1,230 Mtok/s, 1.85x or 24.1 ms."""
    return with_unit(value, METRICS[key].unit)


def with_unit(value: float, unit: str) -> str:
    """A value with its unit, or a larger one of the same kind."""
    if unit == "x":
        return f"{value:.2f}x"
    if unit == "ms":
        value, unit = value * 1e3, "µs"
    names = _STEPS.get(unit, (unit,))
    for name in names[:-1]:
        if value < 999.5:
            return f"{digits(value)} {name}"
        value /= 1e3
    return f"{digits(value)} {names[-1]}"


def digits(value: float) -> str:
    """A number of three digits, or whole and with commas from 100 on."""
    if value >= 99.95 or value == 0:
        return f"{value:,.0f}"
    if value < 0.995:
        return f"{value:.3g}"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}"


def power_with_unit(power: float, unit: str) -> str:
    """A power of ten with its unit, as 10 ms."""
    number, name = with_unit(power, unit).split()
    return f"{float(number):g} {name}"
