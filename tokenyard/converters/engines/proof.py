"""Proof by doing it again: encoded documents against what transformers makes of them."""

from collections.abc import Sequence

import numpy as np

from tokenyard.converters.engines.base import Encoded, Engine
from tokenyard.converters.engines.canary import Disagreement
from tokenyard.converters.engines.long import encode_parts


def find_disagreement(
    encoded: Encoded, engine: str, truth: Engine, documents: Sequence[tuple[str, ...]]
) -> tuple[int, Disagreement] | None:
    """Encode documents again with the truth; return the first that differs, by its number, or None.

    encoded: what `encode_parts` of the engine named gave for the same documents.
    """
    expected = encode_parts(truth, documents)
    if np.array_equal(encoded.lengths, expected.lengths) and np.array_equal(encoded.ids, expected.ids):
        return None
    pairs = zip(encoded.split(), expected.split(), strict=True)
    for number, (found, right) in enumerate(pairs):
        if not np.array_equal(found, right):
            return number, Disagreement(
                engine=engine,
                text="".join(documents[number]),  # to be shown: parts may leave out the space between them
                expected=tuple(right.tolist()),
                found=tuple(found.tolist()),
            )
    return None
