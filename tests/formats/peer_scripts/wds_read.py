"""Prints every sample of the tars named as arguments, as WebDataset decodes it: a list of ``{name: [type, value]}``."""

import json
import sys

import numpy as np
from webdataset import WebDataset


def plain(value):
    if isinstance(value, np.ndarray):
        return [value.dtype.name + "[]" * value.ndim, value.tolist()]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    return [type(value).__name__, value]


samples = WebDataset(sys.argv[1:], shardshuffle=False, empty_check=False).decode()
rows = [{k: plain(v) for k, v in sample.items() if k != "__url__" and k != "__local_path__"} for sample in samples]
sys.stdout.write(json.dumps(rows))
