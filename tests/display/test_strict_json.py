"""JSON that other parsers than Python's read too."""

import json
import math

import numpy as np
import pytest

from tests.strict import strict
from tokenyard.display.strict_json import strict_json


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "NaN"), (-math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")]
)
def test_numbers_that_json_has_none_for_are_strings_wherever_they_stand(value, text):
    nested = {"a": value, "b": [1.5, (value, {"c": np.float64(value)})]}
    assert strict(strict_json(nested)) == {"a": text, "b": [1.5, [text, {"c": text}]]}
    assert strict(strict_json(value)) == text


def test_all_else_is_what_the_standard_library_writes():
    value = {"z": [1, 0.1, True, None, "é\udcff"], "a": {}, "path": ("x", 1e-300)}
    for how in ({}, {"indent": 2, "sort_keys": True}):
        assert strict_json(value, **how) == json.dumps(value, **how)
    assert strict(strict_json({"bytes": b"\x00", "path": np.float32(1.5)})) == {"bytes": "b'\\x00'", "path": "1.5"}


def test_a_parser_of_these_tests_refuses_what_json_is_not():
    for text in ("NaN", "[Infinity]", '{"a": -Infinity}'):
        with pytest.raises(ValueError, match=r"no number of JSON"):
            strict(text)
