"""Length grouping and token budgets through `build_dataloader`: every format, engine, loss masks and mixtures."""

import json

import pytest
import torch

import tokenyard
from tests.corpora import FORMATS, random_rows, write_corpus
from tokenyard.datasets.occurrences import occurrences
from tokenyard.datasets.receipt import receipt
from tokenyard.errors import ConfigError

ROWS = random_rows(seed=3, num_rows=90, longest=40)
MASKS = [[i % 2 for i in range(len(row))] for row in ROWS]
GROUPING = {"global_batch_size": 8, "length_grouping": {"steps": 4}}
BUDGET = {"token_budget": {"tokens": 96, "micro_batches": 4}}
ENGINES = [
    {"num_threads": 0},
    {"num_threads": 2},
    {"num_workers": 2, "multiprocessing_context": "fork"},
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "c"
    write_corpus(path, ROWS, shard_bytes=1000, loss_mask=("uint8[]", MASKS))
    return path


def settings(path, order, *, sample=None, data=None, **loader):
    return {
        "data": data or {"path": str(path), "sample": {"mode": "rows", **(sample or {})}},
        "order": {"seed": 7, "block_samples": 4, **order},
        "loader": loader,
    }


def as_lists(batches):
    return [{name: tensor.tolist() for name, tensor in batch.items()} for batch in batches]


@pytest.fixture(scope="module", params=[GROUPING, BUDGET], ids=["grouping", "budget"])
def order(request):
    return {**request.param, "last_batch": "pad"}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("engine", ENGINES)
def test_batches_are_equal_in_every_format_and_engine(tmp_path, corpus, order, format, engine):
    write_corpus(tmp_path / "c", ROWS, format=format, shard_bytes=1500, loss_mask=("uint8[]", MASKS))
    expected = as_lists(tokenyard.build_dataloader(settings(corpus, order, num_threads=0), 0, 2))
    assert as_lists(tokenyard.build_dataloader(settings(tmp_path / "c", order, **engine), 0, 2)) == expected


def test_batches_are_rows_padded_to_the_longest_with_masked_labels(corpus, order):
    loader = tokenyard.build_dataloader(settings(corpus, order), 0, 1)
    seen = []
    for batch in loader:
        rows = [ROWS[i] for i in batch["sample_ids"].tolist()]
        longest = max(map(len, rows))
        assert batch["input_ids"].shape == batch["labels"].shape == (len(rows), longest)
        if "token_budget" in order:
            assert batch["input_ids"].numel() <= 96
        real = batch["sample_mask"].tolist()
        for row, i, inputs, labels, is_real in zip(
            rows, batch["sample_ids"].tolist(), batch["input_ids"], batch["labels"], real, strict=True
        ):
            assert inputs[: len(row)].tolist() == row
            marked = [t if m and is_real else -100 for t, m in zip(row, MASKS[i], strict=True)]
            assert labels.tolist() == marked[1:] + [-100] * (longest - max(0, len(row) - 1))
            seen += [i] * is_real
    assert sorted(seen) == list(range(90))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stopped_loader_goes_on_at_another_world_size(corpus, order, engine):
    whole = tokenyard.build_dataloader(settings(corpus, order, num_threads=0), 0, 1)
    steps = [as_lists(step) for step in whole.steps()] + [as_lists(step) for step in whole.steps()]
    loader = tokenyard.build_dataloader(settings(corpus, order, **engine), 0, 1)
    for number, _ in enumerate(loader.steps(), start=1):
        if number == 5:
            break
    state = json.loads(json.dumps(loader.state_dict()))
    assert (state["step"], state["micro_batches_past"]) == (5, 0)
    parts = []
    for rank in range(2):
        resumed = tokenyard.build_dataloader(settings(corpus, order, **engine), rank, 2)
        resumed.load_state_dict(state)
        parts.append([step for _ in range(2) for step in resumed.steps()])
        assert resumed.step == len(steps)
    for found, expected in zip(zip(*parts, strict=True), steps[5:], strict=True):
        ids = [i for part in found for batch in part for i in batch["sample_ids"].tolist()]
        assert ids == [i for batch in expected for i in batch["sample_ids"]]
        if "token_budget" in order:
            assert as_lists([*found[0], *found[1]]) == expected


@pytest.mark.parametrize("order", [GROUPING, BUDGET], ids=["grouping", "budget"])
def test_mixtures_of_rows_are_batched_by_length_too(tmp_path, order):
    rows = {"web": random_rows(4, 60, 30), "code": random_rows(5, 40, 60)}
    sources = []
    for name, format in (("web", "mds"), ("code", "parquet")):
        write_corpus(tmp_path / name, rows[name], format=format)
        sources.append({"path": str(tmp_path / name), "weight": 1.0, "name": name})
    data = {"sources": sources, "sample": {"mode": "rows"}, "weights_in": "samples"}
    loader = tokenyard.build_dataloader(settings(None, {**order, "epoch_samples": 100}, data=data), 0, 1)
    padded = real = 0
    names = list(rows)
    for batch in loader:
        for source, i, inputs in zip(batch["source_ids"], batch["sample_ids"], batch["input_ids"], strict=True):
            row = rows[names[source]][i]
            assert inputs[: len(row)].tolist() == row
        real += sum(batch["attention_mask"].sum(1).tolist())
        padded += batch["input_ids"].numel()
        assert "token_budget" not in order or batch["input_ids"].numel() <= 96
    assert len(loader) == len(list(loader))
    if "length_grouping" in order:
        plain = settings(None, {"global_batch_size": 8, "epoch_samples": 100}, data=data)
        assert padded < sum(batch["input_ids"].numel() for batch in tokenyard.build_dataloader(plain, 0, 1))


def test_boundaries_let_attention_skip_the_padding(corpus, order):
    sample = {"mode": "rows", "boundaries": True}
    for batch in tokenyard.build_dataloader(settings(corpus, order, sample=sample), 0, 1):
        assert batch["cu_seqlens"][-1] == batch["input_ids"].numel()
        assert torch.equal(batch["document_ids"] == -1, batch["attention_mask"] == 0)


def test_a_row_longer_than_the_budget_is_refused_when_the_loader_is_built(tmp_path):
    write_corpus(tmp_path / "c", [[1] * 3, [1] * 5, [1] * 9], shard_bytes=8)
    order = {"token_budget": {"tokens": 8, "micro_batches": 1}}
    with pytest.raises(
        ConfigError, match=r"token_budget.tokens: .*/c, row 2 has 9 tokens, and no micro-batch of 8 has room for it"
    ):
        tokenyard.build_dataloader(settings(tmp_path / "c", order), 0, 1)


def test_a_state_of_the_other_kind_of_batches_is_refused(corpus):
    fixed = tokenyard.build_dataloader(settings(corpus, {"global_batch_size": 8}), 0, 1)
    budget = tokenyard.build_dataloader(settings(corpus, BUDGET), 0, 1)
    for new_segment in (False, True):
        with pytest.raises(ConfigError, match=r"taken of a run with order\.token_budget, but there is order\.global"):
            fixed.load_state_dict(budget.state_dict(), new_segment=new_segment)
        with pytest.raises(ConfigError, match=r"taken of a run with order\.global_batch_size, but there is order\.tok"):
            budget.load_state_dict(fixed.state_dict(), new_segment=new_segment)


@pytest.mark.parametrize(
    ("order", "sample", "loader", "message"),
    [
        ({}, {}, {}, "one of order.global_batch_size .* and order.token_budget .* is needed"),
        ({**BUDGET, "global_batch_size": 8}, {}, {}, "^order: global_batch_size is given beside .* both say how large"),
        (
            {**BUDGET, "segments": [{"from_step": 4, "seq_len": 4}]},
            {},
            {},
            "^order: segments is given beside .* no fixed place",
        ),
        ({**BUDGET, "length_grouping": {"steps": 4}}, {}, {}, "^order: length_grouping is given beside"),
        ({**BUDGET, "lanes": 2}, {}, {}, "^order: lanes is 2, but order.token_budget takes one sample after another"),
        (BUDGET, {}, {"micro_batch_size": 2}, "loader.micro_batch_size is given beside order.token_budget"),
        (
            BUDGET,
            {"mode": "concat"},
            {},
            "order.token_budget is about the lengths of rows, but data.sample.mode is con",
        ),
        (GROUPING, {"mode": "concat"}, {}, "order.length_grouping is about the lengths of rows, but data.sample.mode"),
        (BUDGET, {"seq_len": 64}, {}, "order.token_budget saves padding, but data.sample.seq_len pads every row to 64"),
        (GROUPING, {"seq_len": 64}, {}, "order.length_grouping saves padding, but data.sample.seq_len pads every row"),
        ({"global_batch_size": 8, "length_grouping": {"steps": 1}}, {}, {}, "order.length_grouping.steps"),
        ({"token_budget": {"tokens": 0, "micro_batches": 1}}, {}, {}, "order.token_budget.tokens"),
        ({"token_budget": {"tokens": 8}}, {}, {}, "order.token_budget.micro_batches"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(corpus, order, sample, loader, message):
    with pytest.raises(ConfigError, match=message):
        tokenyard.build_dataloader(settings(corpus, order, sample=sample, **loader), 0, 1)


def test_a_planned_change_falls_between_groups_of_steps(corpus):
    order = {**GROUPING, "segments": [{"from_step": 6, "global_batch_size": 16}], "window_blocks": 4}
    with pytest.raises(ConfigError, match=r"order.segments.0: .* length_grouping shares out .* it can: 4 and 8"):
        tokenyard.build_dataloader(settings(corpus, order), 0, 1)
    order["segments"][0]["from_step"] = 8
    assert len(list(tokenyard.build_dataloader(settings(corpus, order), 0, 1))) == 8 + (90 - 64) // 16


def test_receipts_say_where_a_row_is_and_that_steps_were_gone_through(corpus, order):
    loaders = [tokenyard.build_dataloader(settings(corpus, order), rank, 2) for rank in range(2)]
    batches, dataset = loaders[1].sampler.batches, loaders[1].dataset
    given = [list(loader.steps()) for loader in loaders]
    for row in range(0, 90, 7):
        report = occurrences(batches, dataset, row, epochs=[0])
        assert report.by_scanning
        seen = report.epochs[0].seen
        assert seen
        for found in seen:
            ids = [i for of_rank in given for batch in of_rank[found.step] for i in batch["sample_ids"].tolist()]
            assert ids[found.slot] == row
        told = receipt(batches, dataset, seen[0].step)
        assert told.slots[seen[0].slot].sample == row
