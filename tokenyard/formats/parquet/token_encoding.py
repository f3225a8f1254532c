"""Which of two encodings makes the tokens of a shard smaller, tried on a part of them.

BYTE_STREAM_SPLIT keeps the bytes of ids apart: what a codec finds there is that some bytes are frequent, which is all
there is in shuffled or short texts. PLAIN keeps ids whole, so that phrases that come again are found as such: code,
markup and long documents. Which is better differs by up to a quarter, and is a matter of the texts alone.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from tokenyard.rows import Array

TokenEncoding = Literal["BYTE_STREAM_SPLIT", "PLAIN"]
#: Tokens in a part that is tried, about what a page holds; and how many parts, spread over the shard.
_PART_TOKENS = 1 << 18
_PARTS = 2
#: Fewer tokens tell too little.
_LEAST_TOKENS = 1 << 16


def choose_token_encoding(tokens: Array, compression: str, level: int | None) -> TokenEncoding:
    """The encoding that takes fewer bytes for ``tokens`` under this codec; depends on nothing but these three."""
    if len(tokens) < _LEAST_TOKENS:
        return "BYTE_STREAM_SPLIT"
    codec = pa.Codec("lz4_raw" if compression == "lz4" else compression, compression_level=level)
    plain = split = 0
    for start in np.linspace(0, max(0, len(tokens) - _PART_TOKENS), _PARTS).astype(int).tolist():
        # Parquet has no integers of less than 32 bits.
        part = tokens[start : start + _PART_TOKENS]
        wide = np.ascontiguousarray(part, "<i8" if part.itemsize == 8 else "<u4")
        plain += codec.compress(wide.view(np.uint8)).size
        split += codec.compress(np.ascontiguousarray(wide.view(np.uint8).reshape(-1, wide.itemsize).T)).size
    return "PLAIN" if plain < split else "BYTE_STREAM_SPLIT"
