"""What a step holds as it is shown is what the loader gives, and the map of the order is what receipts say."""

import numpy as np
import pytest
import yaml

from tests.runs import loaders, open_run, packed_rows, settings, write_corpora
from tokenyard.config import load_config
from tokenyard.datasets.order_map import order_map
from tokenyard.datasets.receipt import receipt
from tokenyard.errors import ConfigError
from tokenyard.looking.steps import show_step, train_settings


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("steps"))


def packed_run(tmp_path):
    packed_rows(tmp_path / "packed", "npy", pad=True)
    sample = {"mode": "rows", "mask_boundaries": True}
    return load_config(
        {"data": {"path": str(tmp_path / "packed"), "sample": sample}, "order": {"seed": 7, "global_batch_size": 4}}
    )


def given(config, step, world_size):
    """What the loaders of all ranks give at a step: input ids and labels, [slots, width]."""
    found = []
    for loader in loaders(config, world_size):
        loader.set_epoch(0)
        batches = [batch for number, batches in enumerate(loader.steps()) if number == step for batch in batches]
        found += [pair for batch in batches for pair in zip(batch["input_ids"], batch["labels"], strict=True)]
    return found


@pytest.mark.parametrize("world_size", [1, 2])
def test_slots_show_the_ids_that_the_loader_gives_and_mask_what_has_no_label(tmp_path, world_size):
    config = packed_run(tmp_path)
    found, shown = show_step(config, 2, None, world_size, max_tokens=100, decoder=None)
    expected = given(config, 2, world_size)
    assert len(shown) == len(found.slots) == len(expected) == 4
    for row, (ids, labels) in zip(shown, expected, strict=True):
        cells = [cell for part in row.parts for cell in part.cells]
        assert [cell.ids[0] for cell in cells] == ids.tolist()
        assert [cell.is_masked for cell in cells] == (labels == -100).tolist()
        assert any(cell.is_masked for cell in cells)
        assert row.mask == "labels"


def test_parts_of_a_slot_are_its_documents_and_padding(tmp_path):
    found, shown = show_step(packed_run(tmp_path), 1, None, 1, max_tokens=100, decoder=None)
    for slot, row in zip(found.slots, shown, strict=True):
        titles = [part.title for part in row.parts]
        assert [title.split(":")[0].split(",")[0] for title in titles if title.startswith("row")] == [
            f"row {piece.row}" for piece in slot.pieces
        ]
        used = sum(piece.stop - piece.start for piece in slot.pieces)
        assert sum(len(part.cells) for part in row.parts) == 12
        assert [title for title in titles if title.startswith("padding")] == (
            [f"padding: {12 - used} tokens"] if used < 12 else []
        )


def test_the_slots_of_one_rank_are_shown_alone(tmp_path):
    config = packed_run(tmp_path)
    every = show_step(config, 0, None, 2, max_tokens=5, decoder=None)[1]
    assert show_step(config, 0, 1, 2, max_tokens=5, decoder=None)[1] == every[2:]
    with pytest.raises(ConfigError, match=r"rank: expected one of the ranks 0 \.\. 1 of world_size 2, found 2"):
        show_step(config, 0, 2, 2, max_tokens=5, decoder=None)


def test_each_part_of_a_window_has_the_tokens_of_its_row(home):
    config = settings(home)
    corpus = open_run(config)[1].corpus
    found, shown = show_step(config, 3, None, 1, max_tokens=100, decoder=None)
    for slot, row in zip(found.slots, shown, strict=True):
        expected = [corpus[piece.row][piece.start : piece.stop].tolist() for piece in slot.pieces]
        assert [[cell.ids[0] for cell in part.cells] for part in row.parts] == expected
        assert row.mask is None


@pytest.mark.parametrize("mixture", [False, True])
def test_the_map_says_what_receipts_say(home, mixture):
    config = settings(home, mixture=mixture, order={"epoch_samples": 80} if mixture else None)
    found = order_map(config, steps=3, world_size=4, about="", command="")
    batches, dataset = open_run(config, world_size=4)
    assert len(found.cells) == 3
    for step, cells in enumerate(found.cells):
        for rank, cell in enumerate(cells):
            slots = receipt(batches, dataset, step, rank).slots
            assert cell.samples == tuple(slot.sample for slot in slots)
            assert cell.sources == tuple(slot.source for slot in slots)
            sizes = {
                name: corpus.num_tokens for name, corpus in zip(dataset.source_names, dataset.corpora, strict=True)
            }
            assert np.allclose(cell.places, [slot.start / sizes[slot.source] for slot in slots])


def test_a_short_run_has_a_short_map(home):
    found = order_map(settings(home), steps=10_000, world_size=1, about="", command="")
    batches, _ = open_run(settings(home))
    assert len(found.cells) == batches.epoch_range(0)[1]


def test_another_path_takes_the_place_of_that_of_the_settings(home, tmp_path):
    file = tmp_path / "train.yaml"
    data = {"data": {"path": "/elsewhere", "format": "mds"}, "order": {"global_batch_size": 8}}
    file.write_text(yaml.safe_dump(data))
    assert train_settings(file, None, {}).data.path == "/elsewhere"
    found = train_settings(file, str(home / "web"), {})
    assert (found.data.path, found.data.format) == (str(home / "web"), "auto")


def test_another_path_for_a_mixture_is_refused(home, tmp_path):
    file = tmp_path / "train.yaml"
    sources = [{"path": str(home / name), "weight": 1} for name in ("web", "code")]
    file.write_text(yaml.safe_dump({"data": {"sources": sources}, "order": {"global_batch_size": 8}}))
    with pytest.raises(
        ConfigError, match=r"train.yaml: its data are a mixture of several corpora; leave the path x out"
    ):
        train_settings(file, "x", {})
