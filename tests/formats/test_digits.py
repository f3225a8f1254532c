"""Numbers written many at once are those that Python writes one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.formats.npy.header import write_header, write_list_headers
from tokenyard.formats.shared.digits import decimal, octal

LARGEST = 8**11 - 1  # what a tar's header holds
EDGES = [0, 1, 9, 10, 2**31 - 1, 2**31, LARGEST]
numbers = st.lists(st.integers(0, LARGEST) | st.sampled_from(EDGES) | st.integers(0, 11).map(lambda n: 10**n % LARGEST))


@given(numbers)
def test_digits_are_those_of_python(values: list[int]) -> None:
    array = np.array(values, np.int64)
    assert [line.tobytes() for line in decimal(array, 11)] == [b"%011d" % value for value in values]
    assert [line.tobytes() for line in octal(array, 11)] == [b"%011o" % value for value in values]


@given(numbers, st.sampled_from(["|u1", "<u2", "<u4", "<i8", "<f8"]))
def test_headers_of_arrays_made_many_at_once_are_those_made_one_by_one(values: list[int], dtype: str) -> None:
    made = write_list_headers(np.dtype(dtype), np.array(values, np.int64))
    assert [line.tobytes() for line in made] == [write_header(np.dtype(dtype), (value,)) for value in values]
