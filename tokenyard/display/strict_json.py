"""JSON that every parser reads: JSON has no numbers that aren't finite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def strict_json(value: Any, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """Return a value as JSON, in ASCII; "NaN", "Infinity" and "-Infinity" are strings, as in a JSONL corpus.

    What JSON has no form for becomes its ``str``.
    """
    return json.dumps(_finite(value), indent=indent, sort_keys=sort_keys, default=str, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else json.dumps(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
