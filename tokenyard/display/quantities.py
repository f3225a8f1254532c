"""Figures as people read them: three digits and a unit that fits."""

from __future__ import annotations

_STEPS = {"bytes": ("B", "kB", "MB", "GB", "TB"), "µs": ("µs", "ms", "s")}


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


def percent(share: float) -> str:
    """A share of 0 to 1 in percent, with three digits: 12.3 %; what is too small to tell is below 0.001 %."""
    if 0 < share < 1e-5:
        return "< 0.001 %"
    return f"{100 * share:.3g} %" if share < 0.9995 else f"{100 * share:.4g} %"


def power_with_unit(power: float, unit: str) -> str:
    """A power of ten with its unit, as 10 ms."""
    number, name = with_unit(power, unit).split()
    return f"{float(number):g} {name}"
