"""Writes datasets with MDSWriter: JSON on standard input has for each name ``columns``, ``samples`` and ``options``.

Values of array columns are lists, or ``[dtype, list]`` where the column has no dtype of its own; bytes are hex.
"""

import json
import sys

import numpy as np
from streaming import MDSWriter


def value(encoding, given):
    kind, _, rest = encoding.partition(":")
    if kind == "ndarray":
        dtype = rest.partition(":")[0]
        return np.array(given, dtype) if dtype else np.array(given[1], given[0])
    return bytes.fromhex(given) if kind == "bytes" else given


for name, wanted in json.load(sys.stdin).items():
    with MDSWriter(out=f"{sys.argv[1]}/{name}", columns=wanted["columns"], **wanted["options"]) as writer:
        for sample in wanted["samples"]:
            writer.write({k: value(wanted["columns"][k], v) for k, v in sample.items()})
sys.stdout.write(json.dumps(True))
