import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from tests.corpora import random_rows, write_corpus
from tokenyard.corpus.indexing import index_corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.mixed_samples import MixedSamples
from tokenyard.datasets.mixture_dataset import MixtureDataset
from tokenyard.datasets.row_samples import Rows
from tokenyard.errors import ConfigError
from tokenyard.manifest import Layout


def masks_of(rows, seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2, len(row)).tolist() for row in rows]


def packed(path, rows, lengths, seq_len, format, pad_token_id=None):
    layout = Layout(kind="packed", seq_len=seq_len, lengths_field="document_lengths", pad_token_id=pad_token_id)
    return write_corpus(path, rows, format=format, layout=layout, document_lengths=("uint32[]", lengths))


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """One of each kind, with dtypes, widths, paddings and fields of its own."""
    home = tmp_path_factory.mktemp("corpora")
    varied, masked, other_masked = (random_rows(seed, 25, 9) for seed in (1, 2, 3))
    wide = np.random.default_rng(4).integers(1 << 16, 1 << 20, (20, 5)).tolist()
    return {
        "npy": write_corpus(home / "npy", varied, shard_bytes=60, eos_token_id=7),
        "mds": write_corpus(home / "mds", wide, format="mds", token_dtype="uint32", vocab_size=1 << 20),
        "empty": write_corpus(home / "empty", [], format="webdataset"),
        "parquet": write_corpus(
            home / "parquet", masked, format="parquet", loss_mask=("uint8[]", masks_of(masked, 5)), eos_token_id=8
        ),
        "jsonl": write_corpus(
            home / "jsonl", other_masked, format="jsonl", loss_mask=("float32[]", masks_of(other_masked, 6))
        ),
        "csv": write_corpus(home / "csv", [[i, i + 1, i + 2] for i in range(20)], format="csv"),
        "padded": packed(
            home / "padded", [[1, 1, 2, 9], [3] * 4, [4, 5, 9, 9]], [[2, 1], [4], [1, 1]], 4, "mds", pad_token_id=9
        ),
        "full": packed(home / "full", [[1] * 6, [2] * 6], [[2, 4], [6]], 6, "parquet"),
    }


CONCAT = ["npy", "mds", "empty", "parquet", "jsonl", "csv"]
ROWS = [*CONCAT, "padded", "full"]
PADDING = {"npy": 7, "mds": 0, "parquet": 8, "jsonl": 0, "csv": 0, "padded": 9, "full": 0}


def mix(corpora, names, *args, **options):
    return MixtureDataset({n: corpora[n] for n in names}, *args, allow_different_tokenizers=True, **options)


def check_line(batch, i, alone, padding):
    """Line i of a batch is the sample that the source alone gives, and padding after it."""
    width = alone["input_ids"].shape[1]
    rest = batch["input_ids"].shape[1] - width
    assert batch["input_ids"][i].tolist() == alone["input_ids"][0].tolist() + [padding] * rest
    if "labels" in batch:
        assert batch["labels"][i].tolist() == alone["labels"][0].tolist() + [-100] * rest
    if "attention_mask" in batch:
        expected = alone.get("attention_mask", torch.ones_like(alone["input_ids"]))
        assert batch["attention_mask"][i].tolist() == expected[0].tolist() + [0] * rest
    else:
        assert rest == 0
        assert "attention_mask" not in alone
    if "document_ids" in batch:
        assert batch["document_ids"][i].tolist() == alone["document_ids"][0].tolist() + [-1] * rest
        assert batch["position_ids"][i, :width].tolist() == alone["position_ids"][0].tolist()


@given(data=st.data())
def test_each_sample_of_a_mixture_is_the_one_its_source_alone_gives(corpora, data):
    mode = data.draw(st.sampled_from(["concat", "rows"]))
    names = data.draw(st.lists(st.sampled_from(CONCAT if mode == "concat" else ROWS), min_size=1, unique=True))
    seq_len = data.draw(st.integers(1, 7) if mode == "concat" else st.sampled_from([None, None, 9]))
    labels = data.draw(st.sampled_from(["shifted", "same", "none"]))
    options = {
        "boundaries": data.draw(st.booleans()),
        "mask_boundaries": labels != "none" and data.draw(st.booleans()),
    }
    dataset = mix(corpora, names, seq_len, mode, labels, **options)
    alone = [TokenDataset(corpora[name], seq_len, mode, labels, **options) for name in names]
    assert len(dataset) == sum(map(len, alone))
    ids = data.draw(st.lists(st.integers(0, len(dataset) - 1), max_size=9)) if len(dataset) else []
    batch = dataset.batch(ids)
    numbered = [(k, i) for k, source in enumerate(alone) for i in range(len(source))]
    assert list(zip(batch["source_ids"].tolist(), batch["sample_ids"].tolist(), strict=True)) == [
        numbered[i] for i in ids
    ]
    assert all(tensor.is_contiguous() for tensor in batch.values())
    assert batch.keys() == dataset.batch([]).keys()
    for i, (source, sample) in enumerate(numbered[flat] for flat in ids):
        check_line(batch, i, alone[source].batch([sample]), PADDING[names[source]])
    if "cu_seqlens" in batch:
        documents = batch["document_ids"]
        begins = torch.diff(documents, dim=1, prepend=torch.full((len(ids), 1), -2)) != 0
        expected = [*begins.flatten().nonzero().flatten().tolist(), documents.numel()]
        assert batch["cu_seqlens"].tolist() == (expected if ids else [0])
        positions = torch.arange(documents.numel()) - torch.repeat_interleave(
            batch["cu_seqlens"][:-1], torch.diff(batch["cu_seqlens"])
        )
        assert batch["position_ids"].flatten().tolist() == positions.tolist()


def test_a_batch_says_the_source_of_each_sample_and_its_number_there(corpora):
    batch = mix(corpora, ["mds", "csv"], mode="rows").batch([21, 0, 39, -1])
    assert batch["source_ids"].tolist() == [1, 0, 1, 1]
    assert batch["sample_ids"].tolist() == [1, 0, 19, 19]
    assert batch["source_ids"].dtype == batch["sample_ids"].dtype == torch.int64
    assert batch["input_ids"][0].tolist() == [1, 2, 3, 0, 0]
    assert batch["attention_mask"].sum(1).tolist() == [3, 5, 3, 3]


def test_batches_have_the_same_keys_whichever_sources_are_in_them(corpora):
    dataset = mix(corpora, ["mds", "csv"], mode="rows", boundaries=True)
    of_one, of_other, of_both = dataset.batch([0]), dataset.batch([20]), dataset.batch([0, 20])
    assert of_one.keys() == of_other.keys() == of_both.keys()
    assert "attention_mask" in of_one
    assert [b["input_ids"].shape[1] for b in (of_one, of_other, of_both)] == [5, 3, 5]


def test_rows_of_one_width_in_all_sources_need_no_attention_mask(tmp_path):
    sources = {name: write_corpus(tmp_path / name, [[i, i]] * 3) for i, name in enumerate("ab")}
    dataset = MixtureDataset(sources, mode="rows")
    assert dataset.seq_len == 2
    assert "attention_mask" not in dataset.batch([0, 4])


def test_a_source_without_a_loss_mask_counts_as_all_ones_where_another_has_one(tmp_path):
    a = write_corpus(tmp_path / "a", [[1, 2, 3]], loss_mask=("uint8[]", [[1, 0, 1]]))
    b = write_corpus(tmp_path / "b", [[4, 5]])
    batch = MixtureDataset({"a": a, "b": b}, mode="rows", labels="same").batch([0, 1])
    assert batch["labels"].tolist() == [[1, -100, 3], [4, 5, -100]]


def test_loss_masks_of_different_types_keep_their_values(tmp_path):
    a = write_corpus(tmp_path / "a", [[1, 2]], loss_mask=("uint8[]", [[1, 0]]))
    b = write_corpus(tmp_path / "b", [[3, 4]], loss_mask=("float32[]", [[0.0, 0.5]]))
    batch = MixtureDataset({"a": a, "b": b}, mode="rows", labels="same").batch([0, 1])
    assert batch["labels"].tolist() == [[1, -100], [-100, 4]]


def test_items_that_a_source_does_not_have_are_ones_at_tokens_and_zeros_at_padding(tmp_path):
    a = write_corpus(tmp_path / "a", [[1, 2, 3]], loss_mask=("uint8[]", [[1, 0, 1]]))
    b = write_corpus(tmp_path / "b", [[4], [5, 6]])
    samples = MixedSamples([Rows(a, None), Rows(b, None)], [{"loss_mask"}, ()])
    ids = np.array([1, 0, 2])
    assert samples.items_beside(ids, samples.frame(ids), "loss_mask").tolist() == [[1, 0, 0], [1, 0, 1], [1, 1, 0]]


def test_lines_are_padded_with_their_own_sources_padding(tmp_path):
    sources = {
        name: write_corpus(tmp_path / name, [[1] * n, [2]], eos_token_id=n)
        for name, n in zip("abc", (4, 3, 2), strict=True)
    }
    batch = MixtureDataset(sources, mode="rows").batch([5, 0, 2, 3])
    assert batch["input_ids"].tolist() == [[2, 2, 2, 2], [1, 1, 1, 1], [1, 1, 1, 3], [2, 3, 3, 3]]
    assert batch["attention_mask"].tolist() == [[1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]]


def test_boundaries_are_refused_where_one_source_does_not_know_them(corpora):
    with pytest.raises(ConfigError, match=r"boundaries and mask_boundaries: .*full is packed"):
        mix(corpora, ["npy", "full"], 3, boundaries=True)


def test_flat_ids_and_numbers_in_sources_are_each_others_inverse(corpora):
    dataset = mix(corpora, ["empty", "npy", "mds"], 3)
    ids = np.arange(len(dataset)).reshape(1, -1)
    sources, samples = dataset.locate(ids)
    assert sources.shape == samples.shape == ids.shape
    assert sorted(set(sources[0].tolist())) == [1, 2]
    assert np.array_equal(dataset.flat_ids(sources, samples), ids)
    assert [dataset.num_samples_of(k) for k in range(3)] == [0, *np.bincount(sources[0])[1:].tolist()]
    assert dataset.flat_ids(2, [0, 1]).tolist() == [dataset.num_samples_of(1) + i for i in (0, 1)]
    assert dataset.locate([])[0].shape == (0,)


def test_numbers_outside_a_mixture_are_refused(corpora):
    dataset = mix(corpora, ["empty", "csv"], mode="rows")
    with pytest.raises(IndexError, match=r"samples -1 \.\. 3 are not all within the 20"):
        dataset.locate([3, -1])
    with pytest.raises(IndexError, match=r"samples 0 \.\. 20 are not all within the 20"):
        dataset.batch([0, 20])
    with pytest.raises(IndexError, match="sample 0 is not within the 0 of source 'empty'"):
        dataset.flat_ids([1, 0], [19, 0])
    with pytest.raises(IndexError, match=r"sources 0 \.\. 2 are not all within the 2"):
        dataset.flat_ids([0, 2], 0)
    with pytest.raises(IndexError, match="source 2 is not within the 2 of MixtureDataset"):
        dataset.num_samples_of(2)
    with pytest.raises(IndexError, match="source -1 is not within the 2"):
        dataset.num_samples_of(-1)


def test_one_corpus_is_one_source(corpora):
    dataset = TokenDataset(corpora["npy"], 3)
    assert (dataset.corpora, dataset.source_names) == ((corpora["npy"],), ("npy",))
    assert dataset.num_samples_of(0) == len(dataset)
    with pytest.raises(IndexError, match="source 1 is not within the 1 of TokenDataset"):
        dataset.num_samples_of(1)


def test_a_mixture_has_no_corpus_of_its_own_but_several(corpora):
    dataset = mix(corpora, ["npy", "mds"], 3)
    assert dataset.corpora == (corpora["npy"], corpora["mds"])
    assert dataset.source_names == ("npy", "mds")
    with pytest.raises(ConfigError, match=r"expected one corpus, found 2; see `corpora` of MixtureDataset\(npy, mds: "):
        _ = dataset.corpus
    assert mix(corpora, ["npy"], 3).corpus is corpora["npy"]


@pytest.mark.parametrize("names", [["npy"], ["npy", "mds", "parquet"]])
def test_another_seq_len_cuts_the_same_open_corpora_anew(corpora, names):
    dataset = mix(corpora, names, 3, boundaries=True, mask_boundaries=True)
    longer = dataset.with_seq_len(5)
    assert longer is dataset.with_seq_len(5)
    assert dataset.with_seq_len(3) is dataset
    assert type(longer) is type(dataset)
    assert longer.corpora is dataset.corpora
    assert (dataset.seq_len, longer.seq_len, longer.with_seq_len(2).seq_len) == (3, 5, 2)
    made = mix(corpora, names, 5, boundaries=True, mask_boundaries=True)
    assert len(longer) == len(made) != len(dataset)
    found, expected = (d.batch(range(len(d))) for d in (longer, made))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_another_seq_len_serves_one_corpus_too(corpora):
    dataset = TokenDataset(corpora["npy"], 3)
    assert dataset.with_seq_len(4).batch([0])["input_ids"].shape == (1, 4)
    with pytest.raises(ConfigError, match="seq_len: expected a whole number from 1 on, found 0"):
        dataset.with_seq_len(0)


def test_rows_have_no_other_seq_len(corpora):
    for dataset in (mix(corpora, ["npy", "csv"], 9, "rows"), TokenDataset(corpora["npy"], 9, "rows")):
        with pytest.raises(ConfigError, match="seq_len: 4 was asked for, but mode rows takes rows as they are"):
            dataset.with_seq_len(4)


@pytest.mark.parametrize("context", [None, "spawn", "forkserver"])
def test_a_plain_dataloader_reads_a_mixture(corpora, context):
    dataset = mix(corpora, ["npy", "mds", "parquet"], 4)
    options = {"num_workers": 2, "multiprocessing_context": context} if context else {}
    batches = list(DataLoader(dataset, batch_size=7, **options))
    expected = dataset.batch(range(len(dataset)))
    for name in ("input_ids", "labels", "source_ids", "sample_ids"):
        assert torch.equal(torch.cat([batch[name] for batch in batches]), expected[name])


def test_a_mixture_pickles_with_what_was_made_of_it(corpora):
    dataset = mix(corpora, ["npy", "mds"], 4)
    dataset.with_seq_len(2)
    again = pickle.loads(pickle.dumps(dataset))
    assert again[30]["input_ids"].tolist() == dataset[30]["input_ids"].tolist()
    assert again.with_seq_len(2).corpora is again.corpora


def test_sources_of_different_tokenizers_are_refused_unless_that_is_wanted(tmp_path):
    a = write_corpus(tmp_path / "a", [[1]], tokenizer="gpt2")
    b = write_corpus(tmp_path / "b", [[2]])
    c = write_corpus(tmp_path / "c", [[3]], tokenizer="llama")
    with pytest.raises(
        ConfigError, match=r"'a' has tokenizer gpt2, 'c' has llama, .*data\.allow_different_tokenizers: true"
    ):
        MixtureDataset({"a": a, "b": b, "c": c}, 1)
    assert len(MixtureDataset({"a": a, "b": b, "c": c}, 1, labels="same", allow_different_tokenizers=True)) == 3
    assert len(MixtureDataset({"a": a, "b": b}, 1, labels="same")) == 2


def test_sources_of_different_vocabularies_are_refused(tmp_path):
    a = write_corpus(tmp_path / "a", [[1]], vocab_size=10)
    b = write_corpus(tmp_path / "b", [[2]], vocab_size=11)
    with pytest.raises(ConfigError, match=r"'a' has vocab_size 10, 'b' has 11, .*allow_different_tokenizers: true"):
        MixtureDataset({"a": a, "b": b}, 1)


def test_a_source_that_comes_twice_is_refused_in_any_format(tmp_path):
    a, b = (write_corpus(tmp_path / format, [[1, 2], [3]], format=format) for format in ("npy", "mds"))
    with pytest.raises(ConfigError, match=r"'a' and 'b' hold the same rows, ty1:\w+; keep one of them, and give it"):
        MixtureDataset({"a": a, "b": b}, 1)


def test_files_of_others_that_look_the_same_are_refused_until_their_digests_are_known(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "cache"))
    for name in "ab":
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "tokens.npy", np.full((2, 3), ord(name), np.uint16))
    sources = {name: tmp_path / name for name in "ab"}
    with pytest.raises(ConfigError, match=r"files of the same names, sizes and rows, and no digest; .*tokenyard index"):
        MixtureDataset(sources, 1)
    for path in sources.values():
        index_corpus(path)
    assert len(MixtureDataset(sources, mode="rows")) == 4


def test_a_mixture_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="sources: expected at least one name with a corpus, found none"):
        MixtureDataset({})


@pytest.mark.parametrize(
    "dtypes", [("uint16", "uint32"), ("int32", "uint32"), ("uint64", "int64"), ("uint64", "uint16")]
)
def test_sources_of_any_integer_types_mix(tmp_path, dtypes):
    sources = {}
    for dtype in dtypes:
        np.save(tmp_path / f"{dtype}.npy", np.array([[1, 2, min(np.iinfo(dtype).max, (1 << 31) - 1)]], dtype))
        sources[dtype] = tmp_path / f"{dtype}.npy"
    batch = MixtureDataset(sources, mode="rows").batch([1, 0])
    for line, dtype in zip(batch["input_ids"], reversed(dtypes), strict=True):
        assert line.tolist() == [1, 2, min(np.iinfo(dtype).max, (1 << 31) - 1)]
    frame = MixtureDataset(sources, mode="rows")._samples.frame(np.array([0, 1]))
    assert frame.tokens.dtype.kind in "iu"
