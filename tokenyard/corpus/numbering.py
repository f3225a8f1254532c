"""Documents numbered as tokens come: a part of compiled loops."""

from typing import Any

from tokenyard.corpus.compiling import part_of_loops


@part_of_loops
def number_span(positions: Any, numbers: Any, number: int) -> None:
    """Write the tokens of a document: their places from 0 on, and which document it is; both int32[n]."""
    for j in range(len(positions)):
        positions[j] = j
    for j in range(len(numbers)):
        numbers[j] = number
