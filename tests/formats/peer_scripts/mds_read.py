"""Prints every sample of a dataset as StreamingDataset gives it: ``{"rows": [{column: [type, value]}]}``."""

import json
import sys

import numpy as np
from streaming import StreamingDataset


def plain(value):
    if isinstance(value, np.ndarray):
        assert value.ndim == 1, value.shape
        return [f"{value.dtype.name}[]", value.tolist()]
    if isinstance(value, np.generic):
        return [value.dtype.name, value.item()]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    return [type(value).__name__, value]


dataset = StreamingDataset(local=sys.argv[1], shuffle=False, batch_size=1)
sys.stdout.write(json.dumps({"rows": [{k: plain(v) for k, v in dataset[i].items()} for i in range(len(dataset))]}))
