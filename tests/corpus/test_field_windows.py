import numpy as np
import pytest

from tokenyard.corpus import CorpusWriter, open_corpus
from tokenyard.errors import DataError
from tokenyard.schema import Schema


def write(path, token_counts, mask_counts, shard_bytes=1 << 20):
    schema = Schema(token_dtype="uint16", fields={"loss_mask": "uint8[]"})
    with CorpusWriter(path, format="npy", schema=schema, shard_bytes=shard_bytes) as writer:
        for row, (tokens, items) in enumerate(zip(token_counts, mask_counts, strict=True)):
            writer.write(np.full(tokens, row, np.uint16), loss_mask=np.full(items, row % 2, np.uint8))
    return open_corpus(path)


@pytest.mark.parametrize(("tokens", "items"), [([5] * 8, [3] * 8), ([5, 6, 7], [6, 5, 7])])
def test_windows_of_a_field_that_is_not_as_long_as_the_tokens_are_refused(tmp_path, tokens, items):
    corpus = write(tmp_path / "c", tokens, items)
    for _ in range(2):
        with pytest.raises(DataError, match="rows of field 'loss_mask' are not as long as their tokens"):
            corpus.gather_windows(np.array([0, sum(tokens) - 4]), 4, "loss_mask")
        assert corpus.gather_rows(np.array([1]), "loss_mask")[1].tolist() == [0, items[1]]


@pytest.mark.parametrize("shard_bytes", [1, 200, 1 << 20])
@pytest.mark.parametrize("lengths", [[5] * 12, [3, 0, 9, 1, 0, 4, 4]])
def test_windows_of_an_aligned_field_stand_beside_those_of_the_tokens(tmp_path, lengths, shard_bytes):
    corpus = write(tmp_path / "c", lengths, lengths, shard_bytes)
    starts = np.arange(sum(lengths) - 6)
    tokens = corpus.gather_windows(starts, 7)
    stream = np.repeat(np.arange(len(lengths)), lengths)
    corpus.gather_rows(np.arange(len(lengths)), "loss_mask")
    assert np.array_equal(tokens, stream[starts[:, None] + np.arange(7)])
    assert np.array_equal(corpus.gather_windows(starts, 7, "loss_mask"), tokens % 2)
