"""A run that stops and goes on, as often as it likes and on whatever is there then, is the run that never stopped."""

import json
import multiprocessing
from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tokenyard
from tests.corpora import FORMATS, random_rows, write_corpus
from tokenyard.corpus.indexing import index_corpus
from tokenyard.errors import ConfigError

ROWS = {"a": random_rows(seed=1, num_rows=40, longest=30), "b": random_rows(seed=2, num_rows=30, longest=40)}
GLOBAL_BATCH = 12
#: World sizes and micro-batches that divide it.
PLACES = [(1, None), (1, 4), (2, 3), (3, None), (3, 2), (4, 1), (6, 2), (12, None)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two corpora in every format."""
    home = tmp_path_factory.mktemp("corpora")
    for format in FORMATS:
        for name, rows in ROWS.items():
            write_corpus(home / format / name, rows, format=format, shard_bytes=900)
    return home


def config(home, kind="single", format="npy", order=None, **loader):
    order = {"seed": 7, "global_batch_size": GLOBAL_BATCH, "block_samples": 2, **(order or {})}
    data = {"sample": {"seq_len": 4}}
    if kind == "mixture":
        weights = {"a": 0.6, "b": 0.4}
        data["sources"] = [{"path": str(home / format / name), "weight": w} for name, w in weights.items()]
        order = {"epoch_samples": 80, **order}
    else:
        data["path"] = str(home / format / "a")
        if kind == "ramp":
            order["segments"] = [{"from_step": 5, "global_batch_size": 24}, {"from_step": 9, "global_batch_size": 12}]
        if kind == "padded":
            order["last_batch"] = "pad"
    return {"data": data, "order": order, "loader": {"num_threads": 0, **loader}}


def start(config, world_size=1, state=None, **options):
    """The loaders of all ranks, at the start or gone on with."""
    ranks = [tokenyard.build_dataloader(config, rank, world_size) for rank in range(world_size)]
    if state is not None:
        for rank in ranks:
            rank.load_state_dict(json.loads(json.dumps(state)), **options)
    return ranks


def seen(batch):
    """What a batch holds, its tokens included."""
    names = [name for name in ("source_ids", "sample_ids", "sample_mask") if name in batch]
    return list(zip(*(batch[name].tolist() for name in names), map(tuple, batch["input_ids"].tolist()), strict=True))


def global_batches(ranks):
    """One epoch, or its rest, step by step: what all ranks together get."""
    for parts in zip(*(rank.steps() for rank in ranks), strict=True):
        yield list(chain(*(seen(batch) for part in parts for batch in part)))


def steps_from(ranks):
    """Steps, epoch after epoch."""
    while True:
        yield from global_batches(ranks)


def states_of(ranks):
    states = [rank.state_dict() for rank in ranks]
    assert all(state == states[0] for state in states)
    return states[0]


@pytest.fixture(scope="module")
def uninterrupted(home):
    """The first steps of each kind of run, over several epochs."""
    return {
        kind: list(islice(steps_from(start(config(home, kind))), MOST_STEPS))
        for kind in ("single", "padded", "mixture", "ramp")
    }


#: Five runs of nine steps.
MOST_STEPS = 45

engines = st.sampled_from([{"num_threads": 0}, {"num_threads": 1}, {"num_threads": 3, "prefetch_factor": 2}])


class TestAnyStop:
    @given(
        kind=st.sampled_from(["single", "padded", "mixture", "ramp"]),
        runs=st.lists(
            st.tuples(st.integers(1, 9), st.sampled_from(PLACES), engines, st.sampled_from(FORMATS)),
            min_size=1,
            max_size=5,
        ),
        ends_in_loop=st.booleans(),
    )
    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
    def test_any_stops_and_changes_of_place_give_the_run_that_never_stopped(
        self, home, uninterrupted, kind, runs, ends_in_loop
    ):
        found, state = [], None
        for length, (world_size, micro), engine, format in runs:
            ranks = start(config(home, kind, format, micro_batch_size=micro, **engine), world_size, state)
            steps = steps_from(ranks)
            for _ in range(length):
                found.append(next(steps))
                if ends_in_loop:
                    state = states_of(ranks)
            steps.close()
            state = states_of(ranks)
            assert state["step"] == len(found)
            assert state["micro_batches_past"] == 0
        assert found == uninterrupted[kind][: len(found)]

    @pytest.mark.soak
    @given(
        kind=st.sampled_from(["single", "padded", "mixture", "ramp"]),
        runs=st.lists(
            st.tuples(st.integers(1, 9), st.sampled_from(PLACES[:5]), st.integers(1, 2), st.booleans()),
            min_size=2,
            max_size=3,
        ),
    )
    @settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow], deadline=None)
    def test_any_number_of_workers_gives_it_too(self, home, uninterrupted, kind, runs):
        found, state = [], None
        for length, (world_size, micro), num_workers, is_persistent in runs:
            engine = {"num_workers": num_workers, "persistent_workers": is_persistent}
            ranks = start(config(home, kind, micro_batch_size=micro, **engine), world_size, state)
            found += islice(steps_from(ranks), length)
            state = states_of(ranks)
        assert found == uninterrupted[kind][: len(found)]

    @pytest.mark.parametrize("kind", ["single", "padded", "mixture", "ramp"])
    def test_a_stop_at_every_step_goes_on_with_the_next(self, home, uninterrupted, kind):
        ranks = start(config(home, kind))
        steps = steps_from(ranks)
        for done in range(20):
            state = ranks[0].state_dict(step=done)
            assert state == {**states_of(ranks), "micro_batches_past": 0}
            rest = steps_from(start(config(home, kind), 2, state))
            assert list(islice(rest, 3)) == uninterrupted[kind][done : done + 3]
            next(steps)

    def test_workers_go_on_where_threads_stopped_and_the_other_way_round(self, home, uninterrupted):
        found, state = [], None
        engines = [{"num_workers": 2}, {"num_threads": 2}, {"num_workers": 1, "persistent_workers": True}]
        for engine, world_size in zip(engines, (2, 1, 3), strict=True):
            ranks = start(config(home, "single", "parquet", **engine), world_size, state)
            found += islice(steps_from(ranks), 7)
            state = states_of(ranks)
        assert found == uninterrupted["single"][:21]
        del ranks
        assert not multiprocessing.active_children()

    def test_many_resumes_in_a_row_move_nothing(self, home, uninterrupted):
        state = None
        for done in range(30):
            ranks = start(config(home, "mixture"), 1 + done % 3, state)
            assert next(steps_from(ranks)) == uninterrupted["mixture"][done]
            state = states_of(ranks)
            assert state["step"] == done + 1
        for _ in range(5):  # without a step between them
            state = states_of(start(config(home, "mixture"), 1, state))
        assert state["step"] == 30


class TestEpochs:
    @pytest.fixture
    def epochs(self, home):
        loader = start(config(home))
        return [list(global_batches(loader)) for _ in range(4)]

    @pytest.mark.parametrize("before_the_end", [1, 0])
    def test_a_state_around_an_epochs_end_goes_on_right_there(self, home, epochs, before_the_end):
        length = len(epochs[0])
        (loader,) = start(config(home))
        taken = list(islice(global_batches([loader]), length - before_the_end))
        state = loader.state_dict()
        assert (state["epoch"], state["step"]) == (1 - before_the_end, length - before_the_end)
        (again,) = start(config(home), 1, state)
        assert again.epoch == state["epoch"]
        assert taken + list(global_batches([again])) == (epochs[0] if before_the_end else epochs[0] + epochs[1])

    def test_a_state_after_the_first_step_of_a_later_epoch_goes_on_there(self, home, epochs):
        loader = start(config(home))
        list(global_batches(loader))
        first = next(global_batches(loader))
        assert [first, *global_batches(start(config(home), 1, states_of(loader)))] == epochs[1]

    def test_the_state_after_the_loop_is_that_of_the_last_batch(self, home, epochs):
        (loader,) = start(config(home))
        for _ in loader:
            inside = loader.state_dict()
        assert loader.state_dict() == inside
        assert inside["epoch"] == 1

    def test_a_forgotten_set_epoch_goes_on_to_the_next_epoch(self, home, epochs):
        loader = start(config(home), 1, start(config(home))[0].state_dict(step=3))
        assert [list(global_batches(loader)) for _ in range(3)] == [epochs[0][3:], epochs[1], epochs[2]]

    @pytest.mark.parametrize("done", [3, 3 + 20])
    def test_set_epoch_with_the_epoch_just_loaded_keeps_the_position(self, home, epochs, done):
        epoch, within = divmod(done, len(epochs[0]))
        (loader,) = start(config(home), 1, start(config(home))[0].state_dict(step=done))
        for _ in range(2):
            loader.set_epoch(epoch)
        assert loader.step == done
        assert list(global_batches([loader])) == epochs[epoch][within:]

    def test_set_epoch_with_another_epoch_begins_it(self, home, epochs):
        for other in (0, 2):
            (loader,) = start(config(home), 1, start(config(home))[0].state_dict(step=len(epochs[0]) + 3))
            loader.set_epoch(other)
            assert loader.step == other * len(epochs[0])
            assert list(global_batches([loader])) == epochs[other]

    def test_set_epoch_away_and_back_begins_the_epoch_that_was_loaded(self, home, epochs):
        (loader,) = start(config(home), 1, start(config(home))[0].state_dict(step=3))
        loader.set_epoch(1)
        loader.set_epoch(0)
        assert list(global_batches([loader])) == epochs[0]

    @pytest.mark.parametrize("engine", [{}, {"num_threads": 2}, {"num_workers": 1, "persistent_workers": True}])
    def test_a_loop_after_a_break_is_the_next_epoch_and_the_state_before_it_is_the_break(self, home, epochs, engine):
        (loader,) = start(config(home, **engine))
        for _ in range(2):
            for i, _ in enumerate(loader):
                if i == 4:
                    break
        state = loader.state_dict()
        assert (state["epoch"], state["step"]) == (1, len(epochs[0]) + 5)
        assert list(global_batches([loader])) == epochs[2]
        assert list(global_batches(start(config(home), 1, state))) == epochs[1][5:]

    def test_a_state_loaded_in_the_middle_of_a_loop_holds_from_the_next_loop_on(self, home, epochs):
        (loader,) = start(config(home))
        old = global_batches([loader])
        state = loader.state_dict(step=2)
        assert [next(old) for _ in range(5)] == epochs[0][:5]
        loader.load_state_dict(state)
        assert next(old) == epochs[0][5]
        assert loader.step == 2
        assert list(global_batches([loader])) == epochs[0][2:]

    def test_the_length_of_an_epoch_that_is_gone_on_with_is_that_of_all_of_it(self, home, epochs):
        (loader,) = start(config(home), 1, start(config(home))[0].state_dict(step=3))
        assert len(loader) == len(epochs[0])
        loader = start(config(home, micro_batch_size=2), 2, start(config(home))[0].state_dict(step=3))[0]
        assert len(loader) == 3 * len(epochs[0])

    def test_steps_and_batches_begin_their_epoch_with_what_is_asked_for_first(self, home, epochs):
        (loader,) = start(config(home))
        first, second, third = loader.steps(), iter(loader), loader.steps()
        assert seen(next(third)[0]) == epochs[0][0]
        assert seen(next(second)) == epochs[1][0]
        assert seen(next(first)[0]) == epochs[2][0]


class TestBoundaries:
    @pytest.mark.parametrize("engine", [{}, {"num_threads": 2}, {"num_workers": 2}])
    @pytest.mark.parametrize("past", [0, 1, 2])
    def test_a_state_in_mid_accumulation_is_the_last_boundary_and_says_so(self, home, uninterrupted, engine, past):
        (loader,) = start(config(home, micro_batch_size=4, **engine))
        batches = iter(loader)
        for _ in range(3 * 5 + past):
            next(batches)
        state = loader.state_dict()
        assert (state["step"], state["micro_batches_past"]) == (5, past)
        again = start(config(home), 2, state)
        assert states_of(again)["micro_batches_past"] == 0
        assert next(steps_from(again)) == uninterrupted["single"][5]

    @pytest.mark.parametrize("engine", [{"num_threads": 3, "prefetch_factor": 8}, {"num_workers": 2}])
    def test_a_state_counts_what_was_given_out_and_not_what_was_read_ahead(self, home, uninterrupted, engine):
        (loader,) = start(config(home, **engine))
        for done, _ in enumerate(loader, start=1):
            assert loader.state_dict()["step"] == loader.step == done
            if done == 6:
                break
        assert next(steps_from(start(config(home), 1, loader.state_dict()))) == uninterrupted["single"][6]

    def test_a_trainer_that_knows_better_names_the_step(self, home, uninterrupted):
        (loader,) = start(config(home))
        batches = iter(loader)
        for _ in range(6):
            next(batches)
        state = loader.state_dict(step=2)
        assert (state["step"], state["micro_batches_past"]) == (2, 0)
        assert next(steps_from(start(config(home), 1, state))) == uninterrupted["single"][2]
        with pytest.raises(ConfigError, match=r"step: expected an int from 0 to .*, found -1"):
            loader.state_dict(step=-1)

    @pytest.mark.parametrize("engine", [{}, {"num_threads": 2}, {"num_workers": 1}])
    def test_a_run_that_a_source_ends_ends_alike_after_a_stop(self, home, engine):
        for at_end in ("stop", "raise"):
            settings = config(home, "mixture", order={"epoch_samples": 10_000}, **engine)
            settings["data"]["sources"][0] |= {"at_end": at_end, "max_epochs": 1}
            (loader,) = start(settings)
            whole = []
            state = loader.state_dict(step=4)
            for settled in (loader, *start(settings, 1, state)):
                found = []
                if at_end == "raise":
                    with pytest.raises(ConfigError, match="source 'a' has given all samples of its max_epochs, 1, by"):
                        found.extend(settled)
                else:
                    found.extend(settled)
                whole.append([seen(batch) for batch in found])
                with pytest.raises(ConfigError, match="source 'a' has given all samples of its max_epochs, 1, by step"):
                    next(iter(settled))
            assert len(whole[0]) > 6
            assert whole[1] == whole[0][4:]


class TestChanges:
    def test_a_batch_that_is_ramped_by_nobodys_plan_goes_on_with_what_is_left(self, home):
        (loader,) = start(config(home))
        before = list(islice(global_batches([loader]), 5))
        larger = config(home, order={"global_batch_size": 24})
        with pytest.raises(
            ConfigError, match=r"at step 5 of a run with other settings: .*global_batch_size was 12 and is 24"
        ):
            start(larger, 1, loader.state_dict())
        (rest,) = start(larger, 1, loader.state_dict(), new_segment=True)
        after = list(global_batches([rest]))
        assert {len(batch) for batch in after} == {24}
        taken = [sample for batch in before + after for sample in batch]
        assert len(taken) == len(set(taken))
        assert 0 <= len(loader.dataset) - len(taken) < 24
        # From there on, the state knows.
        (again,) = start(larger, 1, rest.state_dict(step=6))
        assert list(global_batches([again])) == after[1:]

    @pytest.mark.parametrize("engine", [{}, {"num_workers": 1}])
    def test_batches_say_what_is_padding_as_the_run_does_that_is_gone_on_with(self, home, engine):
        (padded,) = start(config(home, "padded"))
        (rest,) = start(config(home, **engine), 1, padded.state_dict(step=2), new_segment=True)
        assert rest.sampler.batches.pads
        assert all(batch["sample_mask"].all() for batch in rest)

    def test_a_planned_change_of_the_sequence_length_repeats_no_token(self, home):
        settings = config(home, order={"unit_tokens": 8, "segments": [{"from_step": 4, "seq_len": 8}]})
        (loader,) = start(settings)
        run = list(global_batches([loader]))
        assert [len(tokens) for batch in run for _, tokens in batch[:1]] == [4] * 4 + [8] * (len(run) - 4)
        places = [place for batch in run for sample, tokens in batch
                  for place in range(sample * len(tokens), (sample + 1) * len(tokens))]  # fmt: skip
        assert len(places) == len(set(places))
        for step in range(len(run)):
            (again,) = start(settings, 1, loader.state_dict(step=step))
            assert list(global_batches([again])) == run[step:]

    def test_new_weights_draw_on_from_where_each_source_stood(self, home):
        (loader,) = start(config(home, "mixture", order={"epoch_samples": 120}))
        before = list(islice(global_batches([loader]), 4))
        settings = config(home, "mixture", order={"epoch_samples": 120})
        settings["data"]["sources"][0]["weight"] = 5.0
        with pytest.raises(ConfigError, match=r"weights \(draws of 65536\) were \[39322, 26214\] and are"):
            start(settings, 1, loader.state_dict())
        (rest,) = start(settings, 1, loader.state_dict(), new_segment=True)
        after = list(global_batches([rest]))
        assert len(before) + len(after) == 10
        taken = [sample for batch in before + after for sample in batch]
        assert len(taken) == len(set(taken))
        assert sum(source == 0 for source, _, _ in chain(*after)) == pytest.approx(72 * 5 / 5.4, abs=1)

    def test_sources_in_another_order_and_under_other_names_are_the_same_run(self, home, uninterrupted):
        settings = config(home, "mixture", "mds")
        settings["data"]["sources"].reverse()
        for source in settings["data"]["sources"]:
            source["name"] = "other " + source["path"][-1]
        state = start(config(home, "mixture"))[0].state_dict(step=5)
        (loader,) = start(settings, 1, state)
        expected = [(1 - source, *rest) for source, *rest in uninterrupted["mixture"][5]]
        assert next(steps_from([loader])) == expected

    @pytest.mark.parametrize(
        ("order", "message"),
        [
            ({"seed": 8}, "seed was 7 and is 8"),
            ({"shuffle": "global"}, "shuffle was 'block' and is 'global'"),
            ({"block_samples": 3}, "block_samples was 2 and is 3"),
            ({"last_batch": "pad"}, "last_batch was 'drop' and is 'pad'"),
            ({"lanes": 2}, r"lanes was \d+ and is 2"),
        ],
    )
    def test_settings_of_another_run_are_refused(self, home, order, message):
        state = start(config(home))[0].state_dict(step=5)
        with pytest.raises(ConfigError, match=message):
            start(config(home, order=order), 1, state)

    def test_another_corpus_and_another_seq_len_are_refused(self, home):
        state = start(config(home))[0].state_dict(step=5)
        other = config(home)
        other["data"]["path"] = str(home / "npy" / "b")
        with pytest.raises(ConfigError, match=r"the corpora were \['ty1:\w+'\] and are \['ty1:\w+'\]"):
            start(other, 1, state)
        other = config(home)
        other["data"]["sample"]["seq_len"] = 8
        with pytest.raises(ConfigError, match="seq_len was 4 and is 8"):
            start(other, 1, state)
        with pytest.raises(
            ConfigError, match=r"within epoch 0, at step 5, .* set order\.unit_tokens to a multiple of b"
        ):
            start(other, 1, state, new_segment=True)

    def test_files_of_others_are_gone_on_with_by_their_files_and_then_by_their_digest(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "cache"))
        (tmp_path / "c").mkdir()
        np.save(tmp_path / "c" / "tokens.npy", np.arange(400, dtype=np.uint16).reshape(10, 40))
        settings = config(tmp_path)
        settings["data"] = {"path": str(tmp_path / "c"), "sample": {"seq_len": 4}}
        (loader,) = start(settings)
        state = loader.state_dict(step=3)
        assert state["corpora"][0].startswith("structural:")
        whole = list(global_batches([loader]))
        assert list(global_batches(start(settings, 1, state))) == whole[3:]
        index_corpus(tmp_path / "c")
        assert list(global_batches(start(settings, 1, state))) == whole[3:]


class TestCasesOfOthers:
    """What broke elsewhere."""

    @pytest.mark.parametrize("format", ["npy", "parquet", "jsonl"])
    def test_a_resume_in_mid_chunk_skips_nothing_and_repeats_nothing(self, tmp_path, format):
        # 5,000 rows of one token in one shard; stopped after 200 samples.
        write_corpus(tmp_path / "c", [[i] for i in range(5000)], format=format, shard_bytes=1 << 24)
        settings = {
            "data": {"path": str(tmp_path / "c"), "sample": {"mode": "rows"}},
            "order": {"shuffle": "none", "global_batch_size": 1},
            "loader": {"num_threads": 2},
        }
        (loader,) = start(settings)
        assert len(loader.dataset.corpus.manifest.shards) == 1
        for done, batch in enumerate(loader, start=1):
            assert batch["input_ids"].tolist() == [[done - 1]]
            if done == 200:
                break
        (again,) = start(settings, 1, loader.state_dict())
        assert [batch["sample_ids"].item() for batch in again] == list(range(200, 5000))

    def test_every_possible_stop_in_a_chunk_goes_on_with_the_next_sample(self, tmp_path):
        write_corpus(tmp_path / "c", [[i] for i in range(300)], format="parquet", shard_bytes=1 << 24)
        settings = {
            "data": {"path": str(tmp_path / "c"), "sample": {"mode": "rows"}},
            "order": {"global_batch_size": 1, "block_samples": 16, "window_blocks": 3},
            "loader": {"num_threads": 0},
        }
        (loader,) = start(settings)
        whole = [batch["input_ids"].item() for batch in loader]
        for done in range(300):
            loader.load_state_dict(loader.state_dict(step=done))
            assert next(iter(loader))["input_ids"].item() == whole[done]
            loader.load_state_dict(loader.state_dict(step=done))
            requests = loader.sampler.requests(loader.sampler.begin())
            assert [request.micro_batch.sample_ids.item() for request in requests] == whole[done:]
        assert sorted(whole) == list(range(300))

    @pytest.mark.parametrize("context", ["fork", "forkserver"])
    def test_interrupted_persistent_workers_go_on_from_a_state_and_then_serve_whole_epochs(self, tmp_path, context):
        # 128 samples, 4 shards, batches of 2, left 3 batches early.
        write_corpus(tmp_path / "c", [[i, i] for i in range(128)], shard_bytes=640)
        settings = {
            "data": {"path": str(tmp_path / "c"), "sample": {"mode": "rows"}},
            "order": {"global_batch_size": 2, "seed": 3},
            "loader": {"num_threads": 0},
        }
        (plain,) = start(settings)
        epochs = [[seen(batch) for batch in plain] for _ in range(3)]
        settings["loader"] = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": context}
        (loader,) = start(settings)
        assert len(loader.dataset.corpus.manifest.shards) == 4
        for done, _ in enumerate(loader, start=1):
            if done == 61:
                break
        loader.load_state_dict(loader.state_dict())  # into the same loader, whose workers live on
        assert [seen(batch) for batch in loader] == epochs[0][61:]
        for epoch in (1, 2):
            assert [seen(batch) for batch in loader] == epochs[epoch]

    @pytest.mark.parametrize(("before", "after"), [(2, 1), (4, 3), (1, 12), (12, 1), (3, 4)])
    def test_other_numbers_of_ranks_get_exactly_what_was_left(self, home, before, after):
        ranks = start(config(home), before)
        taken = list(islice(global_batches(ranks), 6))
        left = list(global_batches(start(config(home), after, states_of(ranks))))
        samples = [sample for batch in taken + left for sample, _ in batch]
        size = len(ranks[0].dataset)
        assert len(samples) == len(set(samples)) == size - size % GLOBAL_BATCH

    def test_ranks_that_do_not_divide_the_global_batch_are_refused_with_sizes_that_do(self, home):
        state = states_of(start(config(home, order={"global_batch_size": 16}), 4))
        with pytest.raises(ConfigError, match=r"expected a multiple of world_size 3, found 16; the nearest: 15 and 18"):
            start(config(home, order={"global_batch_size": 16}), 3, state)
