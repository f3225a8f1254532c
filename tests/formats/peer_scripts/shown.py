"""How the scripts beside this one show values, so that JSON carries them without loss."""

import math

import pandas as pd


def shown(value, is_float=None):
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [shown(v) for v in value]
    return repr(value) if isinstance(value, float) else value


def without_nan(value):
    """pandas shows a null as NaN or NA."""
    return None if value is pd.NA or (isinstance(value, float) and math.isnan(value)) else value
