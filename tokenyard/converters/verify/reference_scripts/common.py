"""What the scripts share: the job, and rows sent in frames.

A script runs by its path in an environment of its own, without tokenyard: ``python -I script.py``, the job as JSON on
its standard input. On its standard output go frames: a line of JSON, then the bytes of the arrays that it tells. A
frame is ``{"version"}`` once, then for each shard ``{"shard", "rows", "columns": [[name, dtype, bytes of the values, of
the lengths, of the validity]]}`` as often as needed, and ``{"shard", "end": true}`` or ``{"shard", "error"}``; or
``{"missing": module}``. Of a column without lengths there is one item a row, or as many as tokenyard says.

Values are int64 or uint64, float64, or the bytes of text and of bytes. A column that the library gives as something
else comes as ``[name, null, what it is]``.
"""

import json
import os
import sys
from importlib.metadata import version
from importlib.util import find_spec

try:
    import numpy as np
except ModuleNotFoundError as e:
    sys.stdout.write(json.dumps({"missing": e.name}) + "\n")
    sys.exit()

#: Rows and tokens in a frame, at most; and one row at least.
ROWS, TOKENS = 1024, 1 << 20


def main(package, module, prepare):
    """Do the job: ``prepare(job)`` imports the library, and returns what gives the batches of a shard.

    A job of no shards asks whether the module is there; a library may take ten seconds to import.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes to the errors
    job = json.load(sys.stdin)
    if find_spec(module) is None:
        _send(out, {"missing": module})
        return
    _send(out, {"version": version(package) if package else sys.version.split()[0]})
    if job["shards"]:
        _read(out, job, prepare)


def _read(out, job, prepare):
    try:
        read_shard = prepare(job)
    except ModuleNotFoundError as e:
        _send(out, {"missing": e.name})
        return
    for shard in job["shards"]:
        number = shard["number"]
        try:
            for count, columns in read_shard(shard):
                _send_rows(out, number, count, columns)
        except ModuleNotFoundError as e:
            _send(out, {"missing": e.name})
            return
        except Exception as e:
            _send(out, {"shard": number, "error": f"{e.__class__.__name__}: {e}"})
        else:
            _send(out, {"shard": number, "end": True})


def batches(rows, types):
    """Columns of ``(count, columns)`` out of rows ``{"tokens": array, field: value}``, None for a null."""
    held, size = [], 0
    for row in rows:
        held.append(row)
        size += len(row["tokens"])
        if len(held) == ROWS or size >= TOKENS:
            yield len(held), as_columns(held, types)
            held, size = [], 0
    if held:
        yield len(held), as_columns(held, types)


def as_columns(rows, types):
    found = {"tokens": column([r["tokens"] for r in rows], "int64[]")}
    return found | {name: column([r[name] for r in rows], type) for name, type in types.items()}


def column(values, type):
    """Values of a type, one a row: (items, lengths, validity); or a str that says what they are instead."""
    name = type.removesuffix("?").removesuffix("[]")
    valid = np.array([v is not None for v in values], np.uint8)
    if name in ("string", "bytes"):
        kind = str if name == "string" else (bytes, bytearray)
        if (other := next((v for v in values if v is not None and not isinstance(v, kind)), None)) is not None:
            return other.__class__.__name__
        parts = [b"" if v is None else v.encode() if name == "string" else bytes(v) for v in values]
        return np.frombuffer(b"".join(parts), np.uint8), np.array([len(p) for p in parts], np.int64), valid
    dtype = np.float64 if name.startswith("float") else np.uint64 if name.startswith("uint") else np.int64
    try:
        parts = [np.empty(0, dtype) if v is None else _numbers(v, dtype) for v in values]
    except (TypeError, ValueError, OverflowError) as e:
        return str(e)
    items = np.concatenate(parts) if parts else np.empty(0, dtype)
    return items, np.array([len(p) for p in parts], np.int64), valid


def _numbers(value, dtype):
    if isinstance(value, list) and all(isinstance(v, int) for v in value):
        return np.array(value, dtype)
    array = np.asarray(value)
    if array.size and (array.dtype.kind not in "iufb" or (array.dtype.kind == "f" and dtype != np.float64)):
        raise TypeError(f"{array.dtype.name} values")
    return array.reshape(-1).astype(dtype)


def _send_rows(out, shard, count, columns):
    head, body = [], []
    for name, found in columns.items():
        if isinstance(found, str):
            head.append([name, None, found])
            continue
        parts = [b"" if part is None else np.ascontiguousarray(part).tobytes() for part in found]
        head.append([name, found[0].dtype.str, *map(len, parts)])
        body += parts
    _send(out, {"shard": shard, "rows": count, "columns": head}, *body)


def _send(out, head, *body):
    out.write(json.dumps(head).encode() + b"\n")
    for part in body:
        out.write(part)
    out.flush()
