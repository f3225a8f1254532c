"""Leaves of runs with gaps are those of the whole corpus, wherever rows can be read."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.converters.verify.leaves import BlockLeaves
from tokenyard.digest import Digester, combine
from tokenyard.rows import RowBatch, offsets_of

ROWS = RowBatch(tokens=np.arange(5000, dtype=np.uint16), offsets=offsets_of(np.ones(5000, np.int64)))


@given(
    start=st.integers(0, 3).map(lambda n: n * 1024),
    cuts=st.lists(st.integers(0, 5000), min_size=1, max_size=6),
    lost=st.lists(st.booleans(), min_size=7, max_size=7),
)
def test_blocks_without_a_gap_have_the_leaves_of_the_whole(start, cuts, lost):
    digester = Digester()
    digester.update(ROWS)
    whole = digester.finish().tokens
    found = BlockLeaves({}, start, 5000)
    bad = np.zeros(5000, bool)
    bounds = [start, *sorted(c for c in cuts if c > start), 5000]
    for a, b, gone in zip(bounds[:-1], bounds[1:], lost, strict=False):
        if a == b:
            continue
        if gone:
            bad[a:b] = True
            found.lost(a, b)
        else:
            for row in range(a, b, 700):
                found.add(ROWS.slice(row, min(row + 700, b)), row)
    blocks, leaves = found.finish()
    expected = [
        None if bad[i * 1024 : (i + 1) * 1024].any() else leaf for i, leaf in enumerate(whole) if i * 1024 >= start
    ]
    assert blocks["tokens"] == expected
    assert (leaves is None) == bool(bad.any())
    if leaves is not None and start == 0:
        assert combine([leaves]) == combine([digester.finish()])
