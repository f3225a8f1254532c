"""MDS datasets as others write them, made byte by byte, with nothing of tokenyard's."""

import bz2
import gzip
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

DTYPE_CODES = {
    "uint8": 8, "int8": 9, "uint16": 16, "int16": 17, "float16": 18, "uint32": 32, "int32": 33, "float32": 34,
    "uint64": 64, "int64": 65, "float64": 66,
}  # fmt: skip
COMPRESS = {
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "br": lambda data: pa.Codec("brotli").compress(data, asbytes=True),
    "snappy": lambda data: pa.Codec("snappy").compress(data, asbytes=True),
}


def array(values: Any, dtype: str | None = None, shape: bool = False) -> bytes:
    """An array: with a byte for the dtype when ``dtype`` is not given, with its shape unless ``shape`` is fixed."""
    values = np.asarray(values)
    parts = [] if dtype else [bytes([DTYPE_CODES[values.dtype.name]])]
    if not shape:
        width = next(w for w in range(4) if max(values.shape) < 1 << (8 << w))
        parts.append(bytes([values.ndim << 2 | width]) + np.array(values.shape, f"<u{1 << width}").tobytes())
    return b"".join([*parts, values.tobytes()])


def size_of(encoding: str) -> int | None:
    kind, _, rest = encoding.partition(":")
    if kind == "ndarray":
        dtype, _, shape = rest.partition(":")
        return int(np.prod([int(n) for n in shape.split(",")])) * np.dtype(dtype).itemsize if dtype and shape else None
    if kind == "int":
        return 8
    return np.dtype(kind).itemsize if kind in DTYPE_CODES else None


def encode(encoding: str, value: Any) -> bytes:
    kind, _, rest = encoding.partition(":")
    if isinstance(value, bytes):
        return value
    if kind == "ndarray":
        dtype, _, shape = rest.partition(":")
        return array(np.asarray(value, dtype or None), dtype or None, bool(shape))
    if kind == "json":
        return json.dumps(value).encode()
    if kind in ("str", "str_int", "str_float", "str_decimal"):
        return str(value).encode()
    return np.dtype("int64" if kind == "int" else kind).type(value).tobytes()


def shard(columns: dict[str, str], samples: Sequence[dict[str, Any]]) -> bytes:
    names = sorted(columns)
    bodies = []
    for sample in samples:
        values = [encode(columns[n], sample[n]) for n in names]
        sizes = [len(v) for n, v in zip(names, values, strict=True) if size_of(columns[n]) is None]
        bodies.append(struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(values))
    config = json.dumps(_config(columns, None), sort_keys=True).encode()
    begin = 4 + 4 * (len(bodies) + 1) + len(config)
    offsets = np.cumsum([begin, *map(len, bodies)]).tolist()
    return struct.pack(f"<I{len(offsets)}I", len(bodies), *offsets) + config + b"".join(bodies)


def dataset(
    folder: Path,
    columns: dict[str, str],
    samples: Sequence[dict[str, Any]],
    *,
    shard_rows: int = 1000,
    compression: str | None = None,
    keep_raw: bool = False,
) -> Path:
    """Write a dataset; compressed, it has only the compressed shards unless ``keep_raw``."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for number, start in enumerate(range(0, len(samples), shard_rows)):
        raw = shard(columns, samples[start : start + shard_rows])
        name = f"shard.{number:05d}.mds"
        entry = {**_config(columns, compression), "samples": len(samples[start : start + shard_rows])}
        entry |= {"raw_data": {"basename": name, "bytes": len(raw), "hashes": {}}, "zip_data": None}
        if compression:
            packed = COMPRESS[compression.partition(":")[0]](raw)
            zip_name = f"{name}.{compression.partition(':')[0]}"
            (folder / zip_name).write_bytes(packed)
            entry["zip_data"] = {"basename": zip_name, "bytes": len(packed), "hashes": {}}
        if keep_raw or not compression:
            (folder / name).write_bytes(raw)
        entries.append(entry)
    (folder / "index.json").write_text(json.dumps({"shards": entries, "version": 2}))
    return folder


def edit(folder: Path, **changes: Any) -> Path:
    """Change what ``index.json`` says of the first shard; a value given as a dict changes a part."""
    path = folder / "index.json"
    index = json.loads(path.read_text())
    for key, value in changes.items():
        entry = index["shards"][0]
        entry[key] = entry[key] | value if isinstance(value, dict) else value
    path.write_text(json.dumps(index))
    return folder


def _config(columns: dict[str, str], compression: str | None) -> dict[str, Any]:
    return {
        "version": 2,
        "format": "mds",
        "compression": compression,
        "hashes": [],
        "size_limit": 1 << 26,
        "column_names": sorted(columns),
        "column_encodings": [columns[n] for n in sorted(columns)],
        "column_sizes": [size_of(columns[n]) for n in sorted(columns)],
    }
