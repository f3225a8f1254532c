"""Figures of metrics as people read them."""

from __future__ import annotations

from tokenyard.bench.metrics import METRICS
from tokenyard.display.quantities import with_unit


def short(key: str, value: float) -> str:
    """A figure of a metric with its unit, as 1,230 Mtok/s, 1.85x or 24.1 ms."""
    return with_unit(value, METRICS[key].unit)
