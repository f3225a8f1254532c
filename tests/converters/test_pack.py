"""Packing: every token in its place, document lengths kept, and everything that is dropped or split is counted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenyard
from tokenyard.converters.bins import best_fit_decreasing
from tokenyard.converters.convert import convert
from tokenyard.converters.pack import pack
from tokenyard.errors import ConfigError, SchemaError
from tokenyard.schema import Schema


def write(path, documents, fields=None, **columns):
    schema = Schema(token_dtype="uint16", eos_token_id=0, fields=fields or {})
    with tokenyard.CorpusWriter(path, format="npy", schema=schema) as writer:
        for i, document in enumerate(documents):
            writer.write(document, **{name: values[i] for name, values in columns.items()})
    return path


def lengths_of(corpus):
    return [corpus.row(i)["document_lengths"].tolist() for i in range(len(corpus))]


def test_concat_cuts_the_stream_and_keeps_document_lengths(tmp_path):
    source = write(tmp_path / "documents", [[1, 2, 3], [4, 5, 6, 7], [], [8], [9, 10]])
    report = pack(source, tmp_path / "packed", seq_len=4)
    packed = tokenyard.open_corpus(tmp_path / "packed")
    assert [packed[i].tolist() for i in range(len(packed))] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert lengths_of(packed) == [[3, 1], [3, 1]]
    assert (report.num_dropped_tokens, report.num_split_documents, report.num_empty_documents) == (2, 1, 1)
    assert packed.layout.kind == "packed"
    assert packed.layout.seq_len == 4


@pytest.mark.parametrize("length", [1, 4, 5])
def test_concat_has_no_empty_document_where_documents_end_at_the_edge(tmp_path, length):
    source = write(tmp_path / "documents", [np.arange(length) + 1] * 8)
    pack(source, tmp_path / "packed", seq_len=4)
    packed = tokenyard.open_corpus(tmp_path / "packed")
    for lengths in lengths_of(packed):
        assert min(lengths) > 0
        assert sum(lengths) == 4


def test_best_fit_splits_only_documents_longer_than_a_row_and_pads(tmp_path):
    source = write(tmp_path / "documents", [[1] * 3, [2] * 6, [3], [4] * 2])
    report = pack(source, tmp_path / "packed", seq_len=4, strategy="best_fit", pad_token_id=9)
    packed = tokenyard.open_corpus(tmp_path / "packed")
    rows = [packed[i].tolist() for i in range(len(packed))]
    assert rows == [[1, 1, 1, 3], [2, 2, 2, 2], [2, 2, 4, 4]]
    assert lengths_of(packed) == [[3, 1], [4], [2, 2]]
    assert (report.num_split_documents, report.num_dropped_tokens, report.fill_ratio) == (1, 0, 1.0)
    assert packed.layout.pad_token_id == 9


def test_best_fit_pads_with_eos_unless_told_otherwise(tmp_path):
    source = write(tmp_path / "documents", [[5, 6, 7]])
    report = pack(source, tmp_path / "packed", seq_len=5, strategy="best_fit")
    assert tokenyard.open_corpus(tmp_path / "packed")[0].tolist() == [5, 6, 7, 0, 0]
    assert report.num_padding_tokens == 2
    assert report.fill_ratio == pytest.approx(0.6)


def test_a_loss_mask_is_packed_along_with_its_tokens(tmp_path):
    masks = [[1, 0, 1], [0, 0, 0, 1, 1]]
    source = write(tmp_path / "d", [[1, 2, 3], [4, 5, 6, 7, 8]], {"loss_mask": "uint8[]"}, loss_mask=masks)
    for strategy, expected in (("concat", [[1, 0, 1, 0], [0, 0, 1, 1]]), ("best_fit", [[1, 0, 1, 1], [0, 0, 0, 1]])):
        pack(source, tmp_path / strategy, seq_len=4, strategy=strategy)
        packed = tokenyard.open_corpus(tmp_path / strategy)
        assert [packed.row(i)["loss_mask"].tolist() for i in range(len(packed))] == expected


def test_a_field_of_whole_documents_must_be_dropped_by_name(tmp_path):
    source = write(tmp_path / "documents", [[1, 2]], {"url": "string"}, url=["a"])
    with pytest.raises(SchemaError, match=r"field 'url' \(string\) belongs to a whole document.*--drop-field\): url"):
        pack(source, tmp_path / "packed", seq_len=2)
    assert not (tmp_path / "packed").exists()
    pack(source, tmp_path / "packed", seq_len=2, drop_fields=["url"])
    assert list(tokenyard.open_corpus(tmp_path / "packed").schema.fields) == ["document_lengths"]


def test_a_list_field_of_another_length_than_the_tokens_is_refused(tmp_path):
    source = write(tmp_path / "documents", [[1, 2]], {"spans": "int64[]"}, spans=[[7]])
    with pytest.raises(SchemaError, match="field 'spans' is not as long as the tokens in every row"):
        pack(source, tmp_path / "packed", seq_len=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_len": 0}, "seq_len: expected 1 up to"),
        ({"seq_len": 4, "strategy": "first_fit"}, "strategy: expected concat or best_fit; found 'first_fit'"),
        ({"seq_len": 4, "pad_token_id": 0}, "concat leaves no gaps"),
        ({"seq_len": 4, "drop_fields": ["nope"]}, "drop_fields names nope"),
        ({"seq_len": 4, "strategy": "best_fit", "pad_token_id": 65536}, "does not fit the token dtype uint16"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, options, message):
    source = write(tmp_path / "documents", [[1]])
    with pytest.raises(ConfigError, match=message):
        pack(source, tmp_path / "packed", **options)


@pytest.mark.parametrize("strategy", ["concat", "best_fit"])
def test_the_bytes_do_not_depend_on_the_number_of_workers(tmp_path, strategy):
    rng = np.random.default_rng(0)
    source = write(tmp_path / "documents", [rng.integers(1, 99, n) for n in rng.integers(0, 60, 5000)])
    for workers in (1, 2, 3):
        pack(source, tmp_path / str(workers), seq_len=32, strategy=strategy, num_workers=workers, shard_bytes=80_000)
    one = tree(tmp_path / "1")
    assert len(one) > 4
    assert tree(tmp_path / "2") == one
    assert tree(tmp_path / "3") == one


@pytest.mark.parametrize("strategy", ["concat", "best_fit"])
def test_packed_rows_depend_on_the_documents_and_not_on_how_they_are_stored(tmp_path, strategy):
    rng = np.random.default_rng(1)
    documents = [rng.integers(1, 99, n) for n in rng.integers(0, 60, 3000)]
    source = write(tmp_path / "npy", documents, {"text": "string"}, text=["x" * (i % 50) for i in range(3000)])
    digests = set()
    for format, options in (("parquet", {"row_group_rows": 100}), ("jsonl", {}), ("mds", {"shard_bytes": 9_000})):
        convert(source, tmp_path / format, to=format, **options)
        report = pack(
            tmp_path / format, tmp_path / f"{format}-packed", seq_len=32, strategy=strategy, drop_fields=["text"]
        )
        digests.add(report.digest)
    digests.add(pack(source, tmp_path / "a", seq_len=32, strategy=strategy, drop_fields=["text"]).digest)
    assert len(digests) == 1


def test_rows_that_are_packed_already_are_refused(tmp_path):
    source = write(tmp_path / "documents", [[1, 2, 3]])
    pack(source, tmp_path / "packed", seq_len=4, strategy="best_fit")
    with pytest.raises(ConfigError, match=r"packed already \(seq_len 4\).*pack the corpus of documents"):
        pack(tmp_path / "packed", tmp_path / "again", seq_len=2)


def test_an_id_that_does_not_fit_is_named_by_its_row_in_the_source(tmp_path):
    np.save(tmp_path / "documents.npy", np.array([[1, 2, 3]] * 2500 + [[-5, 4, 6]], np.int16))
    for strategy in ("concat", "best_fit"):
        with pytest.raises(SchemaError, match="row 2500: token id -5"):
            pack(tmp_path / "documents.npy", tmp_path / "out", seq_len=3, strategy=strategy)


def tree(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@settings(max_examples=20)
@given(lengths=st.lists(st.integers(0, 40), max_size=60), seq_len=st.integers(1, 17), shard_bytes=st.integers(1, 5000))
def test_any_documents_packed_either_way_keep_every_token_once(tmp_path_factory, lengths, seq_len, shard_bytes):
    folder = tmp_path_factory.mktemp("pack")
    documents = np.split(np.arange(sum(lengths)), np.cumsum(lengths)[:-1]) if lengths else []
    source = write(folder / "documents", documents)
    stream = np.concatenate([*documents, np.empty(0, int)])
    pack(source, folder / "concat", seq_len=seq_len, shard_bytes=shard_bytes)
    concat = tokenyard.open_corpus(folder / "concat")
    rows = len(stream) // seq_len
    assert np.array_equal(concat.gather_rows(np.arange(rows))[0], stream[: rows * seq_len])
    report = pack(source, folder / "best_fit", seq_len=seq_len, strategy="best_fit", shard_bytes=shard_bytes)
    fitted = tokenyard.open_corpus(folder / "best_fit")
    kept = [fitted[i][: sum(fitted.row(i)["document_lengths"])] for i in range(len(fitted))]
    assert sorted(np.concatenate([*kept, np.empty(0, int)]).tolist()) == stream.tolist()
    assert report.num_tokens == len(stream)


@given(st.lists(st.integers(1, 64), max_size=200))
def test_best_fit_decreasing_fills_bins_no_worse_than_a_slow_one(lengths):
    bins = best_fit_decreasing(np.array(lengths, np.int64), 64)
    assert sorted(i for pieces in bins for i in pieces) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in pieces) <= 64 for pieces in bins)
    rooms = []
    for length in sorted(lengths, reverse=True):
        fitting = [r for r in rooms if r >= length]
        if fitting:
            rooms.remove(min(fitting))
            rooms.append(min(fitting) - length)
        else:
            rooms.append(64 - length)
    assert len(bins) == len(rooms)
