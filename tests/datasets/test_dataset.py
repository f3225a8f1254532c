import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler

from tests.corpora import random_rows, write_corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.mixture_dataset import MixtureDataset
from tokenyard.errors import ConfigError, DataError
from tokenyard.manifest import Layout

ROWS = [[10, 11, 12], [], [20], [30, 31, 32, 33, 34, 35, 36], [40, 41], [50, 51, 52, 53, 54]]


def as_lists(batch):
    return {name: tensor.tolist() for name, tensor in batch.items()}


def reference(rows, masks, *, seq_len, mode, labels, boundaries, mask_boundaries):
    """Every sample by the letter of the specification, token by token."""
    if mode == "concat":
        stream = [(t, m, place == 0) for row, mask in zip(rows, masks, strict=True)
                  for place, (t, m) in enumerate(zip(row, mask, strict=True))]  # fmt: skip
        shift = labels == "shifted"
        count = (len(stream) - shift) // seq_len
        cuts = [stream[i * seq_len : (i + 1) * seq_len + shift] for i in range(count)]
    else:
        cuts = [[(t, m, place == 0) for place, (t, m) in enumerate(zip(row, mask, strict=True))]
                for row, mask in zip(rows, masks, strict=True)]  # fmt: skip
    samples = []
    for i, cut in enumerate(cuts):
        width = seq_len if mode == "concat" else len(cut)
        sample = {"input_ids": [t for t, _, _ in cut[:width]], "sample_ids": i}
        if labels != "none":
            sample["labels"] = []
            for t in range(width):
                at = t + 1 if labels == "shifted" else t
                known = at < len(cut) and cut[at][1] and not (mask_boundaries and at and cut[at][2])
                sample["labels"].append(cut[at][0] if known else -100)
        if boundaries:
            sample["position_ids"], sample["document_ids"] = [], []
            position = document = 0
            for t in range(width):
                if t and cut[t][2]:
                    position, document = 0, document + 1
                sample["position_ids"].append(position)
                sample["document_ids"].append(document)
                position += 1
        samples.append(sample)
    return samples


@given(
    lengths=st.lists(st.integers(0, 9), max_size=8),
    seq_len=st.integers(1, 7),
    mode=st.sampled_from(["concat", "rows"]),
    labels=st.sampled_from(["shifted", "same", "none"]),
    boundaries=st.booleans(),
    mask_boundaries=st.booleans(),
    has_loss_mask=st.booleans(),
    shard_bytes=st.sampled_from([1, 60, 1 << 20]),
    seed=st.integers(0, 99),
)
def test_samples_are_those_of_the_specification(
    tmp_path_factory, lengths, seq_len, mode, labels, boundaries, mask_boundaries, has_loss_mask, shard_bytes, seed
):
    mask_boundaries = mask_boundaries and labels != "none"
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, 1 << 16, n).tolist() for n in lengths]
    masks = [rng.integers(0, 2, n).tolist() if has_loss_mask else [1] * n for n in lengths]
    fields = {"loss_mask": ("uint8[]", masks)} if has_loss_mask else {}
    corpus = write_corpus(tmp_path_factory.mktemp("c") / "c", rows, shard_bytes=shard_bytes, **fields)
    options = {"mode": mode, "labels": labels, "boundaries": boundaries, "mask_boundaries": mask_boundaries}
    dataset = TokenDataset(corpus, seq_len if mode == "concat" else None, **options)
    expected = reference(rows, masks, seq_len=seq_len, **options)
    assert len(dataset) == len(expected)
    for i, sample in enumerate(expected):
        found = dataset[i]
        assert found.pop("attention_mask", torch.tensor(1)).all()
        assert as_lists(found) == sample
        dtypes = {name: tensor.dtype for name, tensor in found.items()}
        of_documents = dict.fromkeys({"position_ids", "document_ids"} & found.keys(), torch.int32)
        assert dtypes == {**dict.fromkeys(found, torch.int64), **of_documents}
        assert all(tensor.is_contiguous() for tensor in found.values())


def test_a_batch_stacks_samples_in_any_order_and_the_same_one_again(tmp_path):
    dataset = TokenDataset(write_corpus(tmp_path / "c", ROWS), 3, boundaries=True)
    batch = dataset.batch(np.array([4, 0, 4, -1]))
    alone = [dataset[i] for i in (4, 0, 4, len(dataset) - 1)]
    for name in alone[0]:
        assert torch.equal(batch[name], torch.stack([sample[name] for sample in alone]))
    assert all(tensor.is_contiguous() for tensor in batch.values())


def test_tensors_of_a_batch_are_the_callers_own(tmp_path):
    dataset = TokenDataset(write_corpus(tmp_path / "c", ROWS), 3)
    indices = np.array([0, 1])
    batch = dataset.batch(indices)
    for tensor in batch.values():
        tensor.fill_(7)
    assert indices.tolist() == [0, 1]
    again = dataset.batch(indices)
    assert again["input_ids"].tolist() == [[10, 11, 12], [20, 30, 31]]
    assert again["labels"].tolist() == [[11, 12, 20], [30, 31, 32]]
    assert again["sample_ids"].tolist() == [0, 1]


def test_cu_seqlens_describe_the_batch_as_one_line(tmp_path):
    dataset = TokenDataset(write_corpus(tmp_path / "c", ROWS), 5, boundaries=True)
    batch = dataset.batch([0, 1, 2])
    # Rows begin at tokens 0, 3, 4, 11 and 13.
    assert batch["cu_seqlens"].tolist() == [0, 3, 4, 5, 10, 11, 13, 15]
    assert batch["cu_seqlens"].dtype == torch.int32
    assert batch["max_seqlen"].item() == 5
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 0], [0, 1, 2, 3, 4], [0, 0, 1, 0, 1]]
    assert batch["document_ids"].tolist() == [[0, 0, 0, 1, 2], [0, 0, 0, 0, 0], [0, 1, 1, 2, 2]]


@pytest.mark.parametrize("mode", ["concat", "rows"])
def test_documents_that_end_at_the_windows_edge_leave_no_empty_document(tmp_path, mode):
    rows = [[1] * 4, [2], [3] * 5, [4] * 2, [5] * 4]
    corpus = write_corpus(tmp_path / "c", rows)
    dataset = TokenDataset(corpus, 4 if mode == "concat" else None, mode, "same", boundaries=True)
    batch = dataset.batch(range(len(dataset)))
    assert (torch.diff(batch["cu_seqlens"]) > 0).all()
    assert batch["cu_seqlens"][-1] == batch["input_ids"].numel()
    changes = torch.diff(batch["input_ids"], dim=1) != 0
    assert (batch["position_ids"][:, 1:][changes] == 0).all()
    assert (batch["position_ids"][:, 0] == 0).all()


def test_a_label_that_crosses_documents_is_masked_and_no_other(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1, 2, 3], [4, 5, 6, 7], [8, 9]])
    shifted = TokenDataset(corpus, 3, mask_boundaries=True).batch([0, 1])
    assert shifted["labels"].tolist() == [[2, 3, -100], [5, 6, 7]]
    same = TokenDataset(corpus, 4, labels="same", mask_boundaries=True).batch([0, 1])
    assert same["labels"].tolist() == [[1, 2, 3, -100], [5, 6, 7, -100]]


def test_rows_of_one_length_need_no_attention_mask(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1, 2, 3], [4, 5, 6]])
    dataset = TokenDataset(corpus, mode="rows")
    assert as_lists(dataset.batch([1, 0])) == {
        "input_ids": [[4, 5, 6], [1, 2, 3]],
        "labels": [[5, 6, -100], [2, 3, -100]],
        "sample_ids": [1, 0],
    }
    assert dataset.seq_len == 3
    assert dataset.batch([])["input_ids"].shape == (0, 3)


def test_rows_of_several_lengths_are_padded_to_the_longest_of_the_batch(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1, 2, 3], [], [4], [5, 6]], eos_token_id=9)
    dataset = TokenDataset(corpus, mode="rows", boundaries=True)
    batch = as_lists(dataset.batch([3, 2, 1]))
    assert batch == {
        "input_ids": [[5, 6], [4, 9], [9, 9]],
        "labels": [[6, -100], [-100, -100], [-100, -100]],
        "attention_mask": [[1, 1], [1, 0], [0, 0]],
        "position_ids": [[0, 1], [0, 0], [0, 1]],
        "document_ids": [[0, 0], [0, -1], [-1, -1]],
        "cu_seqlens": [0, 2, 3, 4, 6],
        "max_seqlen": 2,
        "sample_ids": [3, 2, 1],
    }
    assert dataset.batch([1])["input_ids"].shape == (1, 0)


def test_a_batch_whose_rows_happen_to_be_equal_has_the_same_keys(tmp_path):
    dataset = TokenDataset(write_corpus(tmp_path / "c", [[1, 2], [3, 4], [5]]), mode="rows", labels="same")
    assert as_lists(dataset.batch([0, 1]))["attention_mask"] == [[1, 1], [1, 1]]


def test_rows_are_padded_to_seq_len_where_it_is_given(tmp_path):
    dataset = TokenDataset(write_corpus(tmp_path / "c", [[1, 2], [3, 4]]), 3, "rows", "same")
    assert as_lists(dataset.batch([0])) == {
        "input_ids": [[1, 2, 0]],
        "labels": [[1, 2, -100]],
        "attention_mask": [[1, 1, 0]],
        "sample_ids": [0],
    }


def test_rows_longer_than_seq_len_are_refused_at_once(tmp_path):
    corpus = write_corpus(tmp_path / "c", ROWS)
    with pytest.raises(ConfigError, match="rows of up to 7 tokens, and mode rows takes whole rows, but seq_len is 6"):
        TokenDataset(corpus, 6, "rows")


def packed(path, rows, lengths, seq_len, pad_token_id=None, **fields):
    layout = Layout(kind="packed", seq_len=seq_len, lengths_field="document_lengths", pad_token_id=pad_token_id)
    return write_corpus(path, rows, layout=layout, document_lengths=("uint32[]", lengths), **fields)


def test_packed_rows_know_their_documents_by_the_lengths_they_carry(tmp_path):
    corpus = packed(tmp_path / "c", [[1, 1, 2, 2, 2], [3, 3, 3, 3, 3], [4, 5, 6]], [[2, 3], [5], [1, 0, 1]], 5)
    batch = as_lists(TokenDataset(corpus, 5, "rows", boundaries=True, mask_boundaries=True).batch([0, 1, 2]))
    assert batch["labels"] == [[1, -100, 2, 2, -100], [3, 3, 3, 3, -100], [-100, -100, -100, -100, -100]]
    assert batch["document_ids"] == [[0, 0, 1, 1, 1], [0, 0, 0, 0, 0], [0, 1, 2, -1, -1]]
    assert batch["position_ids"] == [[0, 1, 0, 1, 2], [0, 1, 2, 3, 4], [0, 0, 0, 0, 1]]
    assert batch["cu_seqlens"] == [0, 2, 5, 10, 11, 12, 13, 15]
    assert batch["attention_mask"][2] == [1, 1, 1, 0, 0]


def test_full_packed_rows_have_no_padding(tmp_path):
    corpus = packed(tmp_path / "c", [[1, 1, 2, 2], [3, 3, 3, 3]], [[2, 2], [4]], 4)
    batch = as_lists(TokenDataset(corpus, mode="rows", boundaries=True).batch([0, 1]))
    assert "attention_mask" not in batch
    assert batch["cu_seqlens"] == [0, 2, 4, 8]


@pytest.mark.parametrize("seq_len", [None, 6])
def test_padding_that_packed_rows_are_stored_with_is_told_and_gives_no_labels(tmp_path, seq_len):
    rows = [[1, 1, 2, 9], [3, 3, 3, 3], [4, 5, 9, 9]]
    masks = [[1, 1, 1, 0], [1, 1, 0, 1], [1, 1, 0, 0]]
    lengths = [[2, 1], [4], [1, 1]]
    corpus = packed(tmp_path / "c", rows, lengths, 4, pad_token_id=9, loss_mask=("uint8[]", masks))
    dataset = TokenDataset(corpus, seq_len, "rows", "same", boundaries=True, mask_boundaries=True)
    batch = dataset.batch([0, 1, 2])
    width = seq_len or 4
    assert (batch["input_ids"][:, 4:] == 9).all()
    inside = {name: batch[name][:, :4].tolist() for name in ("input_ids", "labels", "attention_mask", "document_ids")}
    assert inside == {
        "input_ids": rows,
        "labels": [[1, 1, -100, -100], [3, 3, -100, 3], [4, -100, -100, -100]],
        "attention_mask": [[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0]],
        "document_ids": [[0, 0, 1, -1], [0, 0, 0, 0], [0, 1, -1, -1]],
    }
    ends = {4: [0, 2, 3, 4, 8, 9, 10, 12], 6: [0, 2, 3, 6, 10, 12, 13, 14, 18]}
    assert batch["cu_seqlens"].tolist() == ends[width]


def test_padded_rows_have_the_same_keys_when_a_batch_happens_to_be_full(tmp_path):
    corpus = packed(tmp_path / "c", [[1, 1], [2, 0]], [[2], [1]], 2, pad_token_id=0)
    assert TokenDataset(corpus, mode="rows").batch([0])["attention_mask"].tolist() == [[1, 1]]


def test_windows_over_padded_rows_are_refused(tmp_path):
    corpus = packed(tmp_path / "c", [[1, 0]], [[1]], 2, pad_token_id=0)
    with pytest.raises(ConfigError, match=r"rows that end in padding.*use mode rows"):
        TokenDataset(corpus, 2)


def test_a_packed_corpus_whose_rows_are_not_as_long_as_promised_is_refused(tmp_path):
    corpus = packed(tmp_path / "c", [[1] * 3, [2] * 5], [[3], [5]], 4)
    with pytest.raises(DataError, match=r"promises rows of 4 tokens, but among rows \[0, 1\] are some of \[3, 5\]"):
        TokenDataset(corpus, mode="rows").batch([0, 1])


def test_lengths_that_count_more_than_their_row_name_the_field(tmp_path):
    corpus = packed(tmp_path / "c", [[1] * 4, [2] * 4], [[4], [3, 2]], 4)
    with pytest.raises(DataError, match="field 'document_lengths': row 1 of the batch: its documents count 5 tokens"):
        TokenDataset(corpus, mode="rows", boundaries=True).batch([0, 1])


def test_documents_longer_than_a_padded_row_name_the_row(tmp_path):
    corpus = packed(tmp_path / "c", [[1] * 4, [2] * 4], [[4], [3, 2]], 4, pad_token_id=0)
    with pytest.raises(
        DataError, match="row 1: its documents count 5 tokens by field 'document_lengths', but it holds 4"
    ):
        TokenDataset(corpus, mode="rows").batch([0, 1])


def test_boundaries_are_refused_where_documents_are_not_known(tmp_path):
    corpus = packed(tmp_path / "a", [[1] * 4], [[4]], 4)
    with pytest.raises(ConfigError, match=r"a document may go on from one row to the next.*use mode rows"):
        TokenDataset(corpus, 4, boundaries=True)
    without = write_corpus(tmp_path / "b", [[1] * 4], layout=Layout(kind="packed", seq_len=4))
    with pytest.raises(ConfigError, match="names no field with the lengths of documents"):
        TokenDataset(without, mode="rows", mask_boundaries=True)


def test_a_loss_mask_that_is_not_as_long_as_its_row_is_refused(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1, 2], [3, 4, 5]], loss_mask=("uint8[]", [[1, 1], [1, 0]]))
    with pytest.raises(DataError, match="row 1: 2 items of field 'loss_mask', but 3 tokens"):
        TokenDataset(corpus, mode="rows").batch([0, 1])
    with pytest.raises(DataError, match="rows of field 'loss_mask' are not as long as their tokens"):
        TokenDataset(corpus, 2).batch([0, 1])
    assert "labels" not in TokenDataset(corpus, mode="rows", labels="none").batch([0, 1])


def test_a_loss_mask_that_is_no_list_is_refused(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1, 2]], loss_mask=("bool", [True]))
    with pytest.raises(ConfigError, match="'loss_mask' is declared as bool, but it masks tokens"):
        TokenDataset(corpus, 1)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([0, 6], r"samples 0 \.\. 6 are not all within the 6"),
        ([-7], r"samples -7 \.\. -7 are not all within"),
        ([0.5], "expected a list of whole numbers, found float64"),
        ([[0]], r"found int64 of shape \(1, 1\)"),
    ],
)
def test_indices_outside_the_dataset_are_refused(tmp_path, indices, message):
    dataset = TokenDataset(write_corpus(tmp_path / "c", ROWS), 3, labels="same")
    with pytest.raises(IndexError, match=message):
        dataset.batch(indices)


def test_a_dataset_is_a_sequence_that_ends(tmp_path):
    dataset = TokenDataset(write_corpus(tmp_path / "c", ROWS), 3)
    assert [sample["sample_ids"].item() for sample in dataset] == [0, 1, 2, 3, 4]
    assert dataset[-1]["sample_ids"].item() == 4
    with pytest.raises(IndexError, match="not all within the 5"):
        dataset[5]


def test_a_dataset_opens_a_path_and_pickles(tmp_path):
    write_corpus(tmp_path / "c", ROWS)
    dataset = TokenDataset(tmp_path / "c", 3)
    assert as_lists(pickle.loads(pickle.dumps(dataset))[2]) == as_lists(dataset[2])
    assert TokenDataset(str(tmp_path / "c")).seq_len == 2048


def test_windows_over_packed_rows_are_as_long_as_these_when_nobody_says(tmp_path):
    for first, (name, length) in enumerate((("a", 3), ("b", 3), ("c", 4))):
        layout = Layout(kind="packed", seq_len=length)
        write_corpus(tmp_path / name, [[first] * length] * 5, layout=layout)
    write_corpus(tmp_path / "documents", ROWS)
    assert TokenDataset(tmp_path / "a").seq_len == 3
    assert TokenDataset(tmp_path / "a", seq_len=7).seq_len == 7
    for names, expected in ((["a", "b"], 3), (["a", "c"], 2048), (["a", "documents"], 2048)):
        assert MixtureDataset({name: tmp_path / name for name in names}).seq_len == expected


def plain_loader(dataset, rank, **options):
    sampler = DistributedSampler(dataset, num_replicas=2, rank=rank, shuffle=True, seed=3)
    sampler.set_epoch(1)
    return DataLoader(dataset, batch_size=3, sampler=sampler, **options)


@pytest.mark.parametrize("options", [{}, {"num_workers": 2, "multiprocessing_context": "forkserver"}])
def test_a_plain_dataloader_with_a_distributed_sampler_works_as_anywhere(tmp_path, options):
    rows = random_rows(0, 20, 30)
    dataset = TokenDataset(write_corpus(tmp_path / "c", rows), 8)
    stream = torch.tensor([t for row in rows for t in row])
    seen = []
    for rank in range(2):
        for batch in plain_loader(dataset, rank, **options):
            assert set(batch) == {"input_ids", "labels", "sample_ids"}
            for i, inputs, labels in zip(batch["sample_ids"], batch["input_ids"], batch["labels"], strict=True):
                assert torch.equal(inputs, stream[i * 8 : i * 8 + 8])
                assert torch.equal(labels, stream[i * 8 + 1 : i * 8 + 9])
            seen += batch["sample_ids"].tolist()
    assert set(seen) == set(range(len(dataset)))
    assert len(seen) <= len(dataset) + 1


def test_a_plain_dataloader_stacks_rows_of_several_lengths(tmp_path):
    dataset = TokenDataset(write_corpus(tmp_path / "c", ROWS), mode="rows")
    batches = list(DataLoader(dataset, batch_size=4))
    assert [tuple(batch["input_ids"].shape) for batch in batches] == [(4, 7), (2, 5)]
    assert batches[1]["attention_mask"].tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]
