"""Where documents begin, in every format and by every rule, against a reference that counts token by token."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tokenyard
from tests.corpora import FORMATS, write_corpus
from tokenyard.converters.pack import pack
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.errors import ConfigError
from tokenyard.manifest import Layout

SEQ_LEN = 6
EOS = 9
#: Documents as long as a sample, as short as can be, one token too long, and whole samples long.
LENGTHS = [6, 1, 7, 5, 1, 1, 3, 6, 6, 12, 2, 13, 0, 7, 1, 4, 5, 6]
TOLD = ("position_ids", "document_ids", "cu_seqlens", "max_seqlen", "labels")


def documents_of(lengths, ends_with_eos=True):
    """Documents that end with the EOS id, which stands nowhere else."""
    documents = [[100 + i] * length for i, length in enumerate(lengths)]
    return [[*d[:-1], EOS] if d and ends_with_eos else d for d in documents]


def tell(samples, shifted):
    """What a batch must say of samples: for each its input as (token, first of its document), then what comes after."""
    told = {name: [] for name in TOLD}
    ends, longest, total = [0], 0, 0
    for line, after in samples:
        positions, numbers = [], []
        position = number = 0
        for column, (_, is_first) in enumerate(line):
            if column and is_first:
                position, number = 0, number + 1
                ends.append(total + column)
            positions.append(position)
            numbers.append(number)
            position += 1
            longest = max(longest, position)
        total += len(line)
        ends.append(total)
        told["position_ids"].append(positions)
        told["document_ids"].append(numbers)
        line = [*line, *after]
        labels = []
        for column in range(len(positions)):
            at = column + 1 if shifted else column
            crosses = at < len(line) and at > 0 and line[at][1]
            labels.append(-100 if at >= len(line) or crosses else line[at][0])
        told["labels"].append(labels)
    return {**told, "cu_seqlens": ends, "max_seqlen": longest}


def cut(stream, seq_len, shifted):
    count = (len(stream) - shifted) // seq_len
    return [(stream[i * seq_len : (i + 1) * seq_len], stream[(i + 1) * seq_len :][:shifted]) for i in range(count)]


def stream_of(documents):
    return [(token, place == 0) for document in documents for place, token in enumerate(document)]


def stream_by_eos(tokens, eos=EOS):
    return [(token, i > 0 and tokens[i - 1] == eos) for i, token in enumerate(tokens)]


def told_by(dataset):
    batch = dataset.batch(range(len(dataset)))
    assert batch["cu_seqlens"].dtype == batch["max_seqlen"].dtype == torch.int32
    assert (torch.diff(batch["cu_seqlens"]) > 0).all()
    return {name: batch[name].tolist() for name in TOLD}


TELL_ALL = {"boundaries": True, "mask_boundaries": True}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("by", ["auto", "eos"])
@pytest.mark.parametrize("labels", ["shifted", "same"])
def test_windows_know_their_documents_in_every_format(tmp_path, format, by, labels):
    documents = documents_of(LENGTHS)
    corpus = write_corpus(tmp_path / "c", documents, format=format, shard_bytes=90, eos_token_id=EOS)
    assert len(corpus.manifest.shards) > 1
    dataset = TokenDataset(corpus, SEQ_LEN, labels=labels, documents=by, **TELL_ALL)
    shifted = labels == "shifted"
    assert told_by(dataset) == tell(cut(stream_of(documents), SEQ_LEN, shifted), shifted)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("by", ["auto", "eos"])
@pytest.mark.parametrize("seq_len", [SEQ_LEN, 50])
def test_windows_without_masked_labels_know_the_same_documents(tmp_path, format, by, seq_len):
    """They are numbered in one pass, without marks."""
    documents = documents_of([*LENGTHS, 90, 0, 0, 3])
    corpus = write_corpus(tmp_path / "c", documents, format=format, shard_bytes=90, eos_token_id=EOS)
    found = told_by(TokenDataset(corpus, seq_len, documents=by, boundaries=True))
    expected = tell(cut(stream_of(documents), seq_len, True), True)
    labels = [[token for token, _ in [*line, *after]][1:] for line, after in cut(stream_of(documents), seq_len, True)]
    assert found == {**expected, "labels": labels}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("by", ["auto", "lengths", "eos"])
def test_rows_that_we_packed_know_their_documents_in_every_format(tmp_path, format, by):
    documents = documents_of(LENGTHS)
    write_corpus(tmp_path / "documents", documents, format=format, shard_bytes=90, eos_token_id=EOS)
    pack(tmp_path / "documents", tmp_path / "packed", seq_len=SEQ_LEN)
    dataset = TokenDataset(tmp_path / "packed", mode="rows", documents=by, **TELL_ALL)
    stream = stream_of(documents)
    rows = [(stream[i : i + SEQ_LEN], []) for i in range(0, len(stream) - SEQ_LEN + 1, SEQ_LEN)]
    assert len(rows) == len(dataset)
    assert told_by(dataset) == tell(rows, True)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", ["rows", "concat"])
def test_packed_rows_of_others_know_their_documents_by_an_eos_id_in_every_format(tmp_path, format, mode):
    tokens = [token for document in documents_of(LENGTHS) for token in document]
    tokens = tokens[: len(tokens) // SEQ_LEN * SEQ_LEN]
    rows = [tokens[i : i + SEQ_LEN] for i in range(0, len(tokens), SEQ_LEN)]
    layout = Layout(kind="packed", seq_len=SEQ_LEN)
    corpus = write_corpus(tmp_path / "c", rows, format=format, layout=layout, shard_bytes=90)
    seq_len = SEQ_LEN if mode == "rows" else 4
    dataset = TokenDataset(corpus, seq_len, mode, documents="eos", eos_token_id=EOS, **TELL_ALL)
    stream = stream_by_eos(tokens)
    cuts = [(stream[i : i + SEQ_LEN], []) for i in range(0, len(stream), SEQ_LEN)]
    assert told_by(dataset) == tell(cuts if mode == "rows" else cut(stream, 4, True), True)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("by", ["auto", "eos"])
def test_padding_of_packed_rows_is_a_document_of_its_own_in_every_format(tmp_path, format, by):
    documents = documents_of([4, 5, 3, 2])
    write_corpus(tmp_path / "documents", documents, format=format, eos_token_id=EOS)
    pack(tmp_path / "documents", tmp_path / "packed", seq_len=SEQ_LEN, strategy="best_fit")
    dataset = TokenDataset(tmp_path / "packed", mode="rows", documents=by, boundaries=True)
    batch = dataset.batch(range(len(dataset)))
    ends, line = [0], 0
    for row, is_token in zip(batch["input_ids"].tolist(), batch["attention_mask"].tolist(), strict=True):
        used = sum(is_token)
        ends += [line + i + 1 for i, token in enumerate(row[:used]) if token == EOS]
        line += len(row)
        ends += [line] * (used < len(row))
    assert batch["cu_seqlens"].tolist() == ends
    assert ((batch["document_ids"] == -1) == (batch["attention_mask"] == 0)).all()
    assert (batch["attention_mask"] == 0).any()


@given(
    tokens=st.lists(st.sampled_from([EOS, 1, 2]), max_size=40),
    seq_len=st.integers(1, 7),
    mode=st.sampled_from(["concat", "rows"]),
    labels=st.sampled_from(["shifted", "same"]),
    shard_bytes=st.sampled_from([1, 1 << 20]),
)
def test_a_document_ends_with_each_eos_id_wherever_it_stands(
    tmp_path_factory, tokens, seq_len, mode, labels, shard_bytes
):
    rows = [tokens[i : i + seq_len] for i in range(0, len(tokens) // seq_len * seq_len, seq_len)]
    path = tmp_path_factory.mktemp("c") / "c"
    corpus = write_corpus(path, rows, shard_bytes=shard_bytes, layout=Layout(kind="packed", seq_len=seq_len))
    options = {"labels": labels, "documents": "eos", "eos_token_id": EOS, **TELL_ALL}
    shifted = labels == "shifted"
    if mode == "rows":
        expected = tell([(stream_by_eos(row), []) for row in rows], shifted)
        dataset = TokenDataset(corpus, mode="rows", **options)
    else:
        stream = stream_by_eos([token for row in rows for token in row])
        expected = tell(cut(stream, 4, shifted), shifted)
        dataset = TokenDataset(corpus, 4, **options)
    assert told_by(dataset) == expected


def test_an_eos_id_that_tokens_can_not_hold_ends_no_document(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1, 9], [9, 2]], vocab_size=1 << 20)
    dataset = TokenDataset(corpus, 4, labels="same", boundaries=True, documents="eos", eos_token_id=65536 + 9)
    assert dataset.batch([0])["cu_seqlens"].tolist() == [0, 4]


def test_rows_are_whole_documents_where_it_is_said(tmp_path):
    layout = Layout(kind="packed", seq_len=4, lengths_field="n")
    corpus = write_corpus(tmp_path / "c", [[1, 1, 2, 2], [3, 3, 3, 4]], layout=layout, n=("uint32[]", [[2, 2], [3, 1]]))
    rows = TokenDataset(corpus, mode="rows", boundaries=True, documents="rows").batch([0, 1])
    assert rows["cu_seqlens"].tolist() == [0, 4, 8]
    windows = TokenDataset(corpus, 8, labels="same", boundaries=True, documents="rows").batch([0])
    assert windows["cu_seqlens"].tolist() == [0, 4, 8]


def test_settings_choose_the_rule(tmp_path):
    layout = Layout(kind="packed", seq_len=4)
    write_corpus(tmp_path / "c", [[1, EOS, 2, 2], [3, 3, 3, EOS]], layout=layout, eos_token_id=EOS)
    settings = {
        "data": {"path": str(tmp_path / "c"), "sample": {"mode": "rows", "boundaries": True, "documents": "eos"}},
        "order": {"global_batch_size": 2, "shuffle": "none"},
    }
    (batch,) = tokenyard.build_dataloader(settings, 0, 1)
    assert batch["cu_seqlens"].tolist() == [0, 2, 4, 8]
    settings["data"]["sample"]["eos_token_id"] = 3
    (batch,) = tokenyard.build_dataloader(settings, 0, 1)
    assert batch["cu_seqlens"].tolist() == [0, 4, 5, 6, 7, 8]


PACKED = Layout(kind="packed", seq_len=4)


@pytest.mark.parametrize(
    ("layout", "options", "message"),
    [
        (None, {"documents": "eos", "boundaries": True}, "doesn't say with which id documents end; give eos_token_id"),
        (None, {"documents": "eof", "boundaries": True}, "expected one of auto, rows, lengths, eos, found 'eof'"),
        (None, {"documents": "eos", "eos_token_id": 1}, "documents is 'eos', but nothing asks where documents begin"),
        (None, {"eos_token_id": 1, "boundaries": True}, "eos_token_id is 1, but documents is 'auto'; choose"),
        (None, {"documents": "eos", "eos_token_id": -1, "boundaries": True}, "a whole number from 0 on, found -1"),
        (None, {"documents": "eos", "eos_token_id": True, "boundaries": True}, "whole number from 0 on, found True"),
        (None, {"documents": "eos", "eos_token_id": 99, "boundaries": True}, "expected an id below 99, the vocabulary"),
        (PACKED, {"documents": "lengths", "boundaries": True}, "mode concat cuts .* regardless of rows; use mode"),
        (PACKED, {"boundaries": True}, "can't tell; use mode rows.* or documents 'eos' if documents end with an id"),
        (PACKED, {"mode": "rows", "boundaries": True}, "names no field .* or use documents 'eos' if documents end"),
        (PACKED, {"mode": "rows", "documents": "lengths", "boundaries": True}, "use documents 'rows' or 'eos'"),
    ],
)
def test_a_rule_that_can_not_work_is_refused_with_the_way_out(tmp_path, layout, options, message):
    corpus = write_corpus(tmp_path / "c", [[1, 2, 3, 4]], layout=layout, vocab_size=99)
    with pytest.raises(ConfigError, match=message):
        TokenDataset(corpus, 4, **options)


def test_telling_documents_leaves_the_tokens_alone(tmp_path):
    corpus = write_corpus(tmp_path / "c", documents_of(LENGTHS), eos_token_id=EOS)
    plain, told = TokenDataset(corpus, SEQ_LEN), TokenDataset(corpus, SEQ_LEN, boundaries=True, documents="eos")
    ids = np.arange(len(plain))
    for name in ("input_ids", "labels"):
        assert torch.equal(plain.batch(ids)[name], told.batch(ids)[name])
