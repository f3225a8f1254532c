"""Rows of JSONL files as Python's json module reads each line."""

import base64
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common
import lines


def prepare(job):
    def read_shard(shard):
        key = shard["meta"].get("tokens", "tokens")
        with lines.opened(Path(job["path"]) / shard["files"][0], "\n") as file:
            objects = (json.loads(line) for line in file if line.strip())
            yield from common.batches((row(found, key) for found in objects), job["fields"])

    def row(found, key):
        return {"tokens": found[key], **{n: value(found.get(n), type) for n, type in job["fields"].items()}}

    return read_shard


def value(found, type):
    """By the rules that tokenyard writes by: base64 for bytes, words for floats that are not finite."""
    if found is None:
        return None
    if type.startswith("bytes"):
        return base64.b64decode(found)
    if type.startswith("float"):
        return [float(v) for v in found] if isinstance(found, list) else float(found)
    return found


if __name__ == "__main__":
    common.main(None, "json", prepare)
