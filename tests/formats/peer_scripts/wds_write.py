"""Writes tars with ShardWriter: the pattern is the first argument, JSON on standard input has the samples.

A value is ``[dtype, list]`` for an array, or anything else that the encoder of its extension takes.
"""

import json
import sys

import numpy as np
from webdataset import ShardWriter


def value(given):
    return np.array(given[1], given[0]) if isinstance(given, list) else given


samples = json.load(sys.stdin)
with ShardWriter(sys.argv[1], maxcount=4, verbose=0) as writer:
    for sample in samples:
        writer.write({k: value(v) for k, v in sample.items()})
sys.stdout.write(json.dumps(True))
