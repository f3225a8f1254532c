"""Tensors of a batch joined into one, and apart again."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.datasets.joined import join, split

DTYPES = [torch.int64, torch.int32, torch.bool, torch.uint8]


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3)),
        max_size=5,
    )
)
def test_tensors_come_back_as_they_were(shapes):
    batch = {name: torch.randint(0, 2, shape).to(dtype) for name, (dtype, shape) in shapes.items()}
    joined, layout = join(batch)
    assert joined.dtype == torch.uint8
    assert joined.is_shared()
    found = split(joined, layout)
    assert list(found) == list(batch)
    for name, tensor in batch.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
        assert found[name].is_contiguous()


def test_tensors_of_a_batch_share_no_bytes():
    found = split(*join({"a": torch.zeros(3, dtype=torch.bool), "b": torch.ones(2), "c": torch.zeros(1)}))
    found["a"].fill_(True)
    found["c"].fill_(7)
    assert found["b"].tolist() == [1, 1]
