"""Rows of a batch taken in any order, against the slow obvious way."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.converters.taking import take
from tokenyard.rows import RowBatch
from tokenyard.schema import Schema

SCHEMA = Schema(
    token_dtype="uint32",
    fields={"mask": "uint8[]", "text": "string?", "score": "float32?", "blob": "bytes", "n": "int64"},
)


def plain(batch: RowBatch) -> list[dict[str, object]]:
    rows = [batch.row(i) for i in range(len(batch))]
    return [{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in row.items()} for row in rows]


@given(data=st.data(), lengths=st.lists(st.integers(0, 5), max_size=12))
def test_rows_come_in_the_order_asked_for_with_every_field(data: st.DataObject, lengths: list[int]) -> None:
    rng = np.random.default_rng(0)
    texts = data.draw(st.lists(st.none() | st.text(max_size=4), min_size=len(lengths), max_size=len(lengths)))
    fields = {
        "mask": [np.arange(n, dtype=np.uint8) for n in lengths],
        "text": texts,
        "score": [None if i % 3 == 1 else i / 2 for i in range(len(lengths))],
        "blob": [bytes(n) for n in lengths],
        "n": list(range(len(lengths))),
    }
    batch = RowBatch.from_rows([rng.integers(0, 1 << 20, n) for n in lengths], SCHEMA, fields)
    numbers = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=20) if lengths else st.just([]))
    taken = take(batch, np.array(numbers, np.int64))
    taken.check()
    before = plain(batch)
    assert plain(taken) == [before[i] for i in numbers]
    assert taken.tokens.dtype == batch.tokens.dtype
