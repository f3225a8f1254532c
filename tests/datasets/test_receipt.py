import pytest
import torch

from tests.corpora import random_rows, write_corpus
from tests.runs import RUNS, loaders, open_run, packed_rows, settings, write_corpora
from tokenyard.corpus import Corpus
from tokenyard.datasets.order.segment import ENDLESS
from tokenyard.datasets.receipt import receipt
from tokenyard.datasets.row_lengths import DatasetRowLengths
from tokenyard.datasets.step_digest import step_digests
from tokenyard.errors import ConfigError

FORMATS = ["npy", "mds", "webdataset", "parquet"]


@pytest.fixture(scope="module", params=FORMATS)
def home(request, tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp(request.param), request.param)


def tokens_of(corpus, slot):
    """Read a slot's tokens from the rows that the receipt names, and make sure that shards are the right ones."""
    names = [shard.name for shard in corpus.manifest.shards]
    found = []
    for piece in slot.pieces:
        shard = names.index(piece.shard)
        assert corpus.shard_row_starts[shard] <= piece.row < corpus.shard_row_starts[shard + 1]
        found += corpus[piece.row][piece.start : piece.stop].tolist()
    return found


def check_step(batches, dataset, corpora, step, micro_batches):
    """The receipt of a step names what the loaders of all ranks gave in it."""
    found = receipt(batches, dataset, step)
    assert (found.step, found.world_size, found.global_batch_size) == (step, batches.world_size, len(found.slots))
    given = [
        (rank, number, {name: tensor[i] for name, tensor in batch.items()})
        for rank, of_rank in enumerate(micro_batches)
        for number, batch in enumerate(of_rank)
        for i in range(len(batch["sample_ids"]))
    ]
    assert [slot.slot for slot in found.slots] == list(range(len(given)))
    for slot, (rank, number, sample) in zip(found.slots, given, strict=True):
        assert (slot.rank, slot.micro_batch, slot.sample) == (rank, number, int(sample["sample_ids"]))
        index = int(sample.get("source_ids", torch.tensor(0)))
        assert (slot.source, slot.source_number) == (dataset.source_names[index], index)
        assert slot.is_padding == (not sample.get("sample_mask", torch.tensor(True)))
        ids = sample["input_ids"]
        real = ids[sample["attention_mask"].bool()] if "attention_mask" in sample else ids
        assert tokens_of(corpora[index], slot) == real.tolist()
        assert slot.stop - slot.start == sum(p.stop - p.start for p in slot.pieces)
        assert slot.seq_len in (None, len(ids))
    for rank in range(batches.world_size):
        assert receipt(batches, dataset, step, rank).slots == tuple(s for s in found.slots if s.rank == rank)


@pytest.mark.parametrize("name", RUNS)
def test_a_receipt_names_the_rows_whose_tokens_the_loaders_of_all_ranks_give(home, name):
    config = settings(home, **RUNS[name], micro_batch_size=2)
    world_size = 2
    batches, dataset = open_run(config, world_size)
    of_ranks = loaders(config, world_size)
    step = 0
    for epoch in range(2):
        first, stop = batches.epoch_range(epoch)
        assert stop < ENDLESS
        for loader in of_ranks:
            loader.set_epoch(epoch)
        for micro_batches in zip(*(loader.steps() for loader in of_ranks), strict=True):
            assert receipt(batches, dataset, step).epoch == epoch
            check_step(batches, dataset, dataset.corpora, step, micro_batches)
            step += 1
        if first == stop or step < stop:
            break
    assert step > 8


@pytest.mark.parametrize(
    "order",
    [
        {"global_batch_size": 8, "length_grouping": {"steps": 4}},
        {"global_batch_size": None, "token_budget": {"tokens": 40, "micro_batches": 8}},
    ],
)
def test_many_ranks_ask_for_no_more_lengths_than_one(tmp_path, monkeypatch, order):
    write_corpora(tmp_path)
    asked = []
    lengths = DatasetRowLengths.__call__
    monkeypatch.setattr(DatasetRowLengths, "__call__", lambda self, ids: asked.append(ids.size) or lengths(self, ids))
    counts = []
    for world_size in (1, 8):
        run = open_run(settings(tmp_path, sample={"mode": "rows", "seq_len": None}, order=order), world_size)
        asked.clear()
        assert {slot.rank for slot in receipt(*run, 2).slots} == set(range(world_size))
        assert len(list(step_digests(*run, 0, 4))) == 4
        counts.append(sum(asked))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("pad", [True, False])
def test_documents_of_packed_rows_are_numbered_inside_their_row(tmp_path, format, pad):
    corpus = packed_rows(tmp_path / "web", format, pad)
    config = settings(tmp_path, sample={"mode": "rows", "seq_len": None, "boundaries": True})
    batches, dataset = open_run(config)
    (loader,) = loaders(config)
    for step, (batch,) in enumerate(loader.steps()):
        for i, slot in enumerate(receipt(batches, dataset, step).slots):
            ids = batch["document_ids"][i]
            assert {piece.row for piece in slot.pieces} <= {slot.sample}
            starts = [int(at) for at in range(len(ids)) if ids[at] >= 0 and (at == 0 or ids[at] != ids[at - 1])]
            assert [piece.start for piece in slot.pieces] == starts
            lengths = [*corpus.row(slot.sample)["document_lengths"].tolist()]
            for piece in slot.pieces:
                assert piece.document is not None
                if piece.document < len(lengths):
                    assert piece.start == sum(lengths[: piece.document])
                    assert piece.stop - piece.start == lengths[piece.document]
                else:
                    assert not pad
                    assert (piece.start, piece.stop) == (sum(lengths), 12)
    assert step == 4


def test_windows_over_packed_rows_tell_the_documents_that_they_hold_a_part_of(tmp_path):
    packed_rows(tmp_path / "web", "npy", pad=False)
    batches, dataset = open_run(settings(tmp_path))
    slots = [slot for step in range(4) for slot in receipt(batches, dataset, step).slots]
    for slot in slots:
        assert tokens_of(dataset.corpus, slot) == dataset[slot.sample]["input_ids"].tolist()
        assert slot.start == slot.sample * 8
    assert any(slot.pieces[0].start for slot in slots)


def test_documents_that_nobody_knows_are_not_told(tmp_path):
    layout = packed_rows(tmp_path / "known", "npy", pad=False).layout
    rows = [[1] * 12] * 8
    write_corpus(tmp_path / "web", rows, layout=type(layout)(kind="packed", seq_len=12))
    batches, dataset = open_run(settings(tmp_path, sample={"mode": "rows", "seq_len": None}))
    assert {piece.document for slot in receipt(batches, dataset, 0).slots for piece in slot.pieces} == {None}


def test_a_row_without_tokens_is_a_sample_without_pieces(tmp_path):
    write_corpus(tmp_path / "web", [[], [1], [], [2, 3]])
    order = {"global_batch_size": 4, "shuffle": "none"}
    batches, dataset = open_run(settings(tmp_path, sample={"mode": "rows", "seq_len": None}, order=order))
    slots = receipt(batches, dataset, 0).slots
    assert [(slot.start, slot.stop, len(slot.pieces)) for slot in slots] == [(0, 0, 0), (0, 1, 1), (1, 1, 0), (1, 3, 1)]


def test_no_token_is_read(tmp_path, monkeypatch):
    write_corpus(tmp_path / "web", random_rows(1, 50, 20))
    batches, dataset = open_run(settings(tmp_path))
    for name in ("gather_rows", "gather_windows", "__getitem__", "batches"):
        monkeypatch.setattr(Corpus, name, lambda *args, **options: pytest.fail("it reads tokens"))
    assert len(receipt(batches, dataset, 1).slots) == 8


def test_a_rank_that_is_not_there_is_refused(tmp_path):
    write_corpus(tmp_path / "web", random_rows(1, 50, 20))
    batches, dataset = open_run(settings(tmp_path), world_size=2)
    for rank in (2, -1):
        with pytest.raises(ConfigError, match=f"rank: expected one of the ranks 0 .. 1 of world_size 2, found {rank}"):
            receipt(batches, dataset, 0, rank)


def test_a_step_after_the_end_of_the_run_is_refused(tmp_path):
    write_corpora(tmp_path)
    batches, dataset = open_run(settings(tmp_path, **RUNS["ending"]))
    with pytest.raises(ConfigError, match="source 'code' has given all samples of its max_epochs, 2"):
        receipt(batches, dataset, 1000)
