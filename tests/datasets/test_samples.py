import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.datasets.samples import check_options, num_windows, window_starts, window_width
from tokenyard.errors import ConfigError


@pytest.mark.parametrize(
    ("num_tokens", "seq_len", "labels", "expected"),
    [
        (0, 4, "shifted", 0),
        (1, 4, "shifted", 0),
        (4, 4, "shifted", 0),
        (5, 4, "shifted", 1),
        (8, 4, "shifted", 1),
        (9, 4, "shifted", 2),
        (4, 4, "same", 1),
        (8, 4, "none", 2),
        (11, 4, "none", 2),
        (0, 4, "same", 0),
    ],
)
def test_shifted_windows_need_one_token_more_than_the_others(num_tokens, seq_len, labels, expected):
    assert num_windows(num_tokens, seq_len, labels) == expected


@given(num_tokens=st.integers(0, 10**12), seq_len=st.integers(1, 10**6), labels=st.sampled_from(["shifted", "same"]))
def test_windows_lie_inside_the_corpus_and_leave_less_than_one_over(num_tokens, seq_len, labels):
    count = num_windows(num_tokens, seq_len, labels)
    end = int(window_starts(np.array([count]), seq_len)[0])
    if count:
        assert end - seq_len + window_width(seq_len, labels) <= num_tokens
    assert end + window_width(seq_len, labels) > num_tokens


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("rolling", "shifted", 4, False), "mode: expected one of concat, rows, found 'rolling'"),
        (("concat", "next", 4, False), "labels: expected one of shifted, same, none, found 'next'"),
        (("concat", "same", 0, False), "seq_len: expected a whole number from 1 on, found 0"),
        (("concat", "same", True, False), "seq_len: expected a whole number from 1 on, found True"),
        (("rows", "none", 4, True), "mask_boundaries masks labels, but labels is none"),
    ],
)
def test_options_that_mean_nothing_are_refused_by_name(options, message):
    with pytest.raises(ConfigError, match=message):
        check_options(*options)
