import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tokenyard
from examples.transforms.masking import Masking
from tests.corpora import random_rows, write_corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order import key
from tokenyard.datasets.transforms import PURPOSE, purposes_of, sample_keys
from tokenyard.errors import ConfigError, TransformError

ROWS = random_rows(seed=2, num_rows=40, longest=30)
VOCAB = 1 << 16


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "c"
    masks = [[i % 2 for i in range(len(row))] for row in ROWS]
    write_corpus(path, ROWS, shard_bytes=600, loss_mask=("uint8[]", masks))
    return path


def unchanged(sample, rng):
    return sample


def redrawn(sample, rng):
    """Every token is drawn: whatever changes the generator is seen."""
    return {"tokens": rng.integers(0, VOCAB, len(sample["tokens"]))}


class Recorder:
    """Keeps what it is handed."""

    def __init__(self):
        self.samples = []

    def __call__(self, sample, rng):
        self.samples.append({**sample, "drawn": rng.integers(0, 1 << 62, 3).tolist()})
        return sample


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("mode", ["concat", "rows"])
@pytest.mark.parametrize("labels", ["shifted", "same", "none"])
@pytest.mark.parametrize("boundaries", [True, False])
def test_a_transform_that_changes_nothing_changes_nothing(corpus, mode, labels, boundaries):
    options = {"mode": mode, "labels": labels, "boundaries": boundaries, "mask_boundaries": labels != "none"}
    seq_len = 8 if mode == "concat" else 33
    plain = TokenDataset(corpus, seq_len, **options)
    for transform in (unchanged, lambda sample, rng: {"tokens": sample["tokens"]}):
        dataset = TokenDataset(corpus, seq_len, transform=transform, **options)
        ids = np.random.default_rng(0).permutation(len(plain))
        assert equal(plain.batch(ids), dataset.batch(ids))


def test_a_transform_is_handed_the_input_and_the_label_past_it(tmp_path):
    rows = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
    write_corpus(tmp_path / "c", rows, loss_mask=("uint8[]", [[1, 0, 1], [1, 1], [0, 1, 1, 1]]))
    handed = Recorder()
    TokenDataset(tmp_path / "c", 4, boundaries=True, transform=handed).batch([1, 0])
    second, first = handed.samples
    assert second["tokens"].tolist() == [5, 6, 7, 8, 9]
    assert first["tokens"].tolist() == [1, 2, 3, 4, 5]
    assert first["loss_mask"].tolist() == [True, False, True, True, True]
    assert second["document_starts"].tolist() == [True, True, False, False, False]
    assert (first["sample_id"], first["input_width"]) == (0, 4)
    assert {name: first[name].dtype.name for name in ("tokens", "loss_mask", "document_starts")} == {
        "tokens": "int64",
        "loss_mask": "bool",
        "document_starts": "bool",
    }


def test_padding_is_cut_off_and_put_back(tmp_path):
    write_corpus(tmp_path / "c", [[1, 2, 3], [], [4]], eos_token_id=9)
    handed = Recorder()
    dataset = TokenDataset(tmp_path / "c", 5, "rows", transform=handed)
    batch = dataset.batch([2, 1, 0])
    assert [(s["sample_id"], s["tokens"].tolist(), s["input_width"]) for s in handed.samples] == [
        (2, [4], 1),
        (0, [1, 2, 3], 3),
    ]
    assert equal(batch, TokenDataset(tmp_path / "c", 5, "rows").batch([2, 1, 0]))
    assert "loss_mask" not in handed.samples[0]
    assert "document_starts" not in handed.samples[0]


def test_labels_are_made_of_what_the_transform_returns(tmp_path):
    write_corpus(tmp_path / "c", [[1, 2, 3, 4, 5]], vocab_size=100)

    def transform(sample, rng):
        return {"tokens": sample["tokens"] + 10, "loss_mask": sample["tokens"] != 3}

    batch = TokenDataset(tmp_path / "c", 4, transform=transform).batch([0])
    assert batch["input_ids"].tolist() == [[11, 12, 13, 14]]
    assert batch["labels"].tolist() == [[12, -100, 14, 15]]


def test_documents_are_those_that_the_transform_returns(tmp_path):
    write_corpus(tmp_path / "c", [[1, 2], [3, 4, 5]])

    def transform(sample, rng):
        return {**sample, "document_starts": np.array([False, False, False, True, False])}

    batch = TokenDataset(tmp_path / "c", 4, boundaries=True, mask_boundaries=True, transform=transform).batch([0])
    assert batch["cu_seqlens"].tolist() == [0, 3, 4]
    assert batch["labels"].tolist() == [[2, 3, -100, 5]]


def test_labels_that_are_given_are_taken_as_they_are(tmp_path):
    write_corpus(tmp_path / "c", [[1, 2], [3, 4], [5], [6]], loss_mask=("uint8[]", [[0, 0], [0, 0], [0], [0]]))

    def transform(sample, rng):
        labels = {"labels": np.array([7, -100])} if sample["sample_id"] == 1 else {}
        return {**sample, **labels}

    dataset = TokenDataset(tmp_path / "c", 2, labels="same", mask_boundaries=True, transform=transform)
    assert dataset.batch([0, 1])["labels"].tolist() == [[-100, -100], [7, -100]]
    rows = TokenDataset(tmp_path / "c", 3, mode="rows", transform=transform)
    assert rows.batch([1, 0])["labels"].tolist() == [[7, -100, -100], [-100, -100, -100]]


def test_what_a_sample_is_handed_does_not_depend_on_what_another_gave_back(tmp_path):
    write_corpus(tmp_path / "c", [[1, 2], [3, 4]])
    handed = Recorder()

    def transform(sample, rng):
        return {**handed(sample, rng), "loss_mask": sample["tokens"] > 2}

    TokenDataset(tmp_path / "c", 2, labels="same", transform=transform).batch([0, 1])
    assert [sorted(sample) for sample in handed.samples] == [["drawn", "input_width", "sample_id", "tokens"]] * 2


def test_arrays_belong_to_the_transform(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1, 2, 3]], loss_mask=("uint8[]", [[1, 1, 1]]))

    def scribble(sample, rng):
        tokens = sample["tokens"].copy()
        for name in ("tokens", "loss_mask", "document_starts"):
            sample[name][:] = 0
        return {"tokens": tokens}

    options = {"labels": "same", "boundaries": True}
    scribbled = TokenDataset(corpus, 3, transform=scribble, **options).batch([0])
    assert equal(scribbled, TokenDataset(corpus, 3, **options).batch([0]))


@given(seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 2**62), sample=st.integers(0, 5))
def test_the_generator_is_philox_of_seed_epoch_and_sample(tmp_path_factory, seed, epoch, sample):
    corpus = write_corpus(tmp_path_factory.mktemp("c") / "c", [list(range(30))])
    handed = Recorder()
    # After another sample, whose transform leaves half a word in the generator.
    TokenDataset(corpus, 5, labels="same", seed=seed, transform=handed).batch([0, sample], epochs=epoch)
    rng = np.random.Generator(np.random.Philox(key=key(seed, epoch, 3, sample)))
    assert handed.samples[1]["drawn"] == rng.integers(0, 1 << 62, 3).tolist()


def test_what_one_sample_draws_leaves_the_next_alone(tmp_path):
    corpus = write_corpus(tmp_path / "c", [list(range(30))])
    found = []

    def transform(sample, rng):
        found.append(rng.integers(0, 1 << 16, 3, dtype=np.uint16).tolist())
        return sample

    dataset = TokenDataset(corpus, 5, labels="same", transform=transform)
    dataset.batch([4, 2])
    dataset.batch([2])
    assert found[1] == found[2]


def test_keys_are_told_apart_by_epoch_purpose_and_sample():
    ids, epochs = np.array([5, 5, 6]), np.array([0, 1, 0])
    assert sample_keys(7, epochs, PURPOSE, ids) == [key(7, 0, 3, 5), key(7, 1, 3, 5), key(7, 0, 3, 6)]
    purposes = purposes_of(np.array([0, 1, 1]))
    assert purposes.tolist() == [19, 23, 23]
    assert sample_keys(7, epochs, purposes, ids) == [key(7, 0, 19, 5), key(7, 1, 23, 5), key(7, 0, 23, 6)]


def test_samples_of_a_batch_draw_by_the_epoch_and_the_source_of_each(corpus):
    batch = TokenDataset(corpus, 8, transform=redrawn, seed=3).batch(
        [4, 4, 1], epochs=np.array([0, 6, 6]), purposes=purposes_of(np.array([2, 2, 0]))
    )
    for line, (sample, epoch, t) in zip(batch["input_ids"], [(4, 0, 27), (4, 6, 27), (1, 6, 19)], strict=True):
        rng = np.random.Generator(np.random.Philox(key=key(3, epoch, t, sample)))
        assert line.tolist() == rng.integers(0, VOCAB, 9).tolist()[:8]


def test_the_order_of_access_changes_nothing(corpus):
    dataset = TokenDataset(corpus, 8, transform=redrawn)
    ids = np.random.default_rng(1).permutation(len(dataset))
    batch = dataset.batch(ids, epochs=2)
    for line, i in enumerate(ids.tolist()):
        assert torch.equal(dataset.batch([i], epochs=2)["input_ids"][0], batch["input_ids"][line])
    assert torch.equal(dataset[3]["input_ids"], dataset.batch([3], epochs=0)["input_ids"][0])


def loader(path, transform, *, world_size=1, rank=0, **engine):
    settings = {
        "data": {"path": str(path), "sample": {"seq_len": 16, "boundaries": True}},
        "order": {"seed": 7, "global_batch_size": 8, "block_samples": 4, "last_batch": "pad"},
        "loader": engine,
    }
    return tokenyard.build_dataloader(settings, rank, world_size, transform=transform)


ENGINES = [
    {"num_threads": 1},
    {"num_threads": 2},
    {"num_workers": 1, "multiprocessing_context": "fork"},
    {"num_workers": 2, "multiprocessing_context": "fork"},
    {"num_workers": 1, "multiprocessing_context": "spawn"},
    {"num_workers": 2, "multiprocessing_context": "spawn", "persistent_workers": True},
]
TRANSFORM = Masking(mask_id=3, vocab_size=VOCAB, rate=0.5, special_ids=(0,))


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_batches_are_equal_at_any_number_of_threads_and_processes(corpus, engine):
    expected, found = loader(corpus, TRANSFORM, num_threads=0), loader(corpus, TRANSFORM, **engine)
    for _ in range(2):
        pairs = list(zip(expected, found, strict=True))
        assert pairs
        assert all(equal(a, b) for a, b in pairs)


def by_sample(batches):
    return {i: line.tolist() for b in batches for i, line in zip(b["sample_ids"].tolist(), b["input_ids"], strict=True)}


def test_each_epoch_draws_anew_and_the_same_one_again_the_same(corpus):
    batches = loader(corpus, redrawn)
    first, second = by_sample(batches), by_sample(batches)
    assert first.keys() == second.keys()
    assert all(first[i] != second[i] for i in first)
    batches.set_epoch(0)
    assert by_sample(batches) == first


def test_samples_are_the_same_on_any_number_of_ranks(corpus):
    one = by_sample(loader(corpus, redrawn))
    two = {}
    for rank in range(2):
        two.update(by_sample(loader(corpus, redrawn, world_size=2, rank=rank)))
    assert one == two


def test_the_seed_of_the_order_is_that_of_the_transform(corpus):
    batch = next(iter(loader(corpus, redrawn)))
    rng = np.random.Generator(np.random.Philox(key=key(7, 0, 3, batch["sample_ids"][0].item())))
    assert batch["input_ids"][0].tolist() == rng.integers(0, VOCAB, 17).tolist()[:16]


def returns(**changes):
    return lambda sample, rng: {**sample, **changes}


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (lambda sample, rng: None, "expected a dict with tokens, found NoneType; return tokens, changed or not"),
        (lambda sample, rng: {}, "expected a dict with tokens, found one with nothing; return tokens"),
        (lambda sample, rng: {"labels": 1}, "expected a dict with tokens, found one with labels; return tokens"),
        (returns(tokens=np.zeros(3, int)), r"int64 of shape \(5,\), found int64 of shape \(3,\); cut or fill what it"),
        (returns(tokens=np.zeros(5)), r"tokens: expected int64 of shape \(5,\), found float64 of shape \(5,\)$"),
        (returns(tokens=[1] * 5), r"tokens: expected int64 of shape \(5,\), found list"),
        (returns(loss_mask=np.ones(5, int)), r"loss_mask: expected bool of shape \(5,\), found int64"),
        (returns(labels=np.zeros(5, int)), r"labels: expected int64 of shape \(4,\), found int64 of shape \(5,\)"),
        (
            returns(tokens=np.array([1, 99, 100, 0, 0])),
            r"tokens\[2\]: expected an id below 100, found 100; use ids ins",
        ),
        (returns(tokens=np.array([1, -1, 0, 0, 0])), r"tokens\[1\]: expected an id below 100, found -1"),
        (returns(labels=np.array([-100, 0, 99, 777])), r"labels\[3\]: expected -100 or an id below 100, found 777"),
        (returns(labels=np.array([-100, -1, 99, 99])), r"labels\[1\]: expected -100 or an id below 100, found -1"),
        (returns(token=1), "keys tokens, loss_mask, document_starts, labels, found 'token'; leave it out"),
        (returns(document_starts=np.ones(5, bool)), "found document_starts, but nothing asks where documents begin"),
    ],
)
def test_what_can_not_be_trained_on_names_the_sample_and_what_was_expected(tmp_path, transform, message):
    corpus = write_corpus(tmp_path / "c", [[1] * 20], vocab_size=100)
    with pytest.raises(TransformError, match=f"sample 2, returned by the transform: .*{message}"):
        TokenDataset(corpus, 4, transform=transform).batch([2])


@pytest.mark.parametrize("name", ["labels", "loss_mask"])
def test_labels_and_masks_are_refused_where_there_are_no_labels(tmp_path, name):
    corpus = write_corpus(tmp_path / "c", [[1] * 4])
    dataset = TokenDataset(corpus, 4, labels="none", transform=returns(**{name: np.zeros(4, int)}))
    with pytest.raises(TransformError, match=f"found {name}, but the dataset's labels is 'none'; choose other labels"):
        dataset.batch([0])


def test_without_a_vocabulary_any_id_that_a_corpus_holds_will_do(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1] * 4], vocab_size=None)
    largest = returns(tokens=np.full(4, (1 << 32) - 1))
    assert TokenDataset(corpus, 4, labels="same", transform=largest).batch([0])["labels"].max() == (1 << 32) - 1
    with pytest.raises(TransformError, match="expected an id below 4294967296, found 4294967296"):
        TokenDataset(corpus, 4, labels="same", transform=returns(tokens=np.full(4, 1 << 32))).batch([0])


def test_what_a_transform_raises_is_told_with_its_sample(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1] * 20])

    def fail(sample, rng):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        TokenDataset(corpus, 4, transform=fail).batch([3])
    assert caught.value.__notes__ == ["while transforming sample 3"]


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_a_transform_that_can_not_be_sent_to_workers_is_refused_at_once(corpus, context):
    with pytest.raises(
        ConfigError, match=r"need one that pickles.*define it at the top level of a module, or use load"
    ):
        loader(corpus, returns(), num_workers=1, multiprocessing_context=context)
    for engine in ({"num_workers": 1, "multiprocessing_context": "fork"}, {"num_threads": 1}):
        assert next(iter(loader(corpus, returns(), **engine)))


@pytest.mark.parametrize("engine", [{"num_threads": 2}, {"num_workers": 1, "multiprocessing_context": "fork"}])
def test_what_can_not_be_trained_on_reaches_the_loop(corpus, engine):
    with pytest.raises(TransformError, match=r"returned by the transform: tokens: expected int64 of shape \(17,\)"):
        next(iter(loader(corpus, returns(tokens=np.zeros(3, int)), **engine)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transform": 3}, "transform: expected a function of a sample and a generator, found 3"),
        ({"seed": -1}, "seed: expected an int from 0"),
        ({"seed": 1 << 64}, "seed: expected an int from 0"),
    ],
)
def test_options_that_are_none_are_refused(tmp_path, options, message):
    corpus = write_corpus(tmp_path / "c", [[1] * 20])
    with pytest.raises(ConfigError, match=message):
        TokenDataset(corpus, 4, **options)


@pytest.mark.parametrize("epochs", [-1, 0.5, np.zeros(3, int), np.array([0, -1]), "0"])
def test_epochs_that_are_none_are_refused(tmp_path, epochs):
    dataset = TokenDataset(write_corpus(tmp_path / "c", [[1] * 20]), 4, transform=unchanged)
    with pytest.raises(
        ConfigError, match="epochs: expected a whole number from 0 on, or one for each of the 2 samples"
    ):
        dataset.batch([0, 1], epochs=epochs)
