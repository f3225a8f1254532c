import copy
import json
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.datasets.budget import BudgetBatches
from tokenyard.datasets.budget_scan import EpochScan
from tokenyard.datasets.order import resolve
from tokenyard.datasets.order.budget import Budget, full_batches
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import Segment, Source
from tokenyard.datasets.rank_context import RankContext
from tokenyard.datasets.sampler import RankSampler
from tokenyard.errors import ConfigError

GOLDEN = [[61, 50, 81, 51], [47, 69, 75, 24], [10, 102, 20, 71], [29, 38, 28, 12], [99, 49, 31, 7, 86]]
GOLDEN_MIXTURE = [[29, 15, 14, 1031], [39, 9, 47, 1000], [2, 19, 28, 1069], [7, 38, 21, 1029, 16], [36, 17, 1073, 13]]


def lengths_of(ids):
    """Made-up lengths from 0 to 99."""
    return ids * 7919 % 104729 % 100


def one_corpus(num_samples=103, *, last_batch="drop", seed=42, **order):
    return Segment(
        order=resolve(num_samples=num_samples, global_batch_size=1, seed=seed, **{"block_samples": 8, **order}),
        global_batch_size=1,
        last_batch=last_batch,
        sources=(Source(id="s0", num_samples=num_samples),),
    )


def mixture(*, weights=(3, 1), at_end="repeat", epoch_samples=70):
    sources = tuple(
        Source(id=f"s{k}", num_samples=50 + 31 * k, number=k, weight=weight, at_end=at_end, max_epochs=2)
        for k, weight in enumerate(weights)
    )
    order = resolve(num_samples=50, global_batch_size=1, seed=42, block_samples=8, is_mixture=True)
    return Segment(order=order, global_batch_size=1, sources=sources, is_mixture=True, epoch_samples=epoch_samples)


class Lengths:
    """Counts how many rows were asked for."""

    def __init__(self):
        self.asked = 0

    def __call__(self, ids):
        self.asked += len(ids)
        return lengths_of(ids)


def sampler(segment=None, *, tokens=400, micro_batches=4, rank=0, world_size=1, lengths=lengths_of):
    mine = RankContext(
        rank=rank,
        world_size=world_size,
        first_id=lambda source, seq_len: 1000 * int(source[1:]),
        row_lengths=lengths,
    )
    budget = Budget(tokens=tokens, micro_batches=micro_batches)
    return RankSampler(BudgetBatches(Plan([segment or one_corpus()]), budget, mine))


def epoch(of, number):
    of.set_epoch(number)
    return [request.micro_batch for request in of.requests(of.begin())]


def ids(of, number):
    return [batch.sample_ids.tolist() for batch in epoch(of, number)]


def draws(segment, number):
    """The samples of an epoch of one corpus in their order."""
    plan = Plan([segment])
    first, stop = plan.epoch_range(number)
    return plan.draws(first, stop - first, np.zeros(1, np.int64)).sample_ids.reshape(-1).tolist()


def plainly_cut(samples, tokens):
    """The definition, followed literally: micro-batches."""
    batches = [[]]
    for sample in samples:
        wider = [*batches[-1], sample]
        if len(wider) * max(1, *(int(lengths_of(s)) for s in wider), 0) > tokens:
            wider = [sample]
            batches.append(wider)
        batches[-1] = wider
    return batches


@given(
    num_samples=st.integers(60, 300),
    tokens=st.integers(100, 600),
    micro_batches=st.sampled_from([1, 2, 4]),
    last_batch=st.sampled_from(["drop", "pad"]),
    shuffle=st.sampled_from(["none", "global", "block"]),
    number=st.integers(0, 2),
)
def test_micro_batches_are_filled_one_after_another(num_samples, tokens, micro_batches, last_batch, shuffle, number):
    segment = one_corpus(num_samples, last_batch=last_batch, shuffle=shuffle)
    found = epoch(sampler(segment, tokens=tokens, micro_batches=micro_batches), number)
    cut = plainly_cut(draws(segment, number), tokens)
    whole = cut[: len(cut) // micro_batches * micro_batches]
    left = cut[len(whole) :]
    if left and last_batch == "pad":
        whole += [left[j % len(left)] for j in range(micro_batches)]
    assert [batch.sample_ids.tolist() for batch in found] == whole
    for batch in found:
        assert len(batch.sample_ids) * lengths_of(batch.sample_ids).max() <= tokens
        assert len(batch.sample_ids) <= tokens
        assert (batch.epochs == number).all()
    real = [s for batch in found for s in batch.sample_ids[~batch.is_padding].tolist()]
    assert len(real) == len(set(real)) == num_samples - (last_batch == "drop") * sum(map(len, left))


@pytest.mark.parametrize("segment", [one_corpus(), one_corpus(last_batch="pad"), mixture()])
def test_ranks_have_equally_many_micro_batches_which_together_are_those_of_one_rank(segment):
    for number in (0, 1):
        whole = ids(sampler(segment), number)
        for world_size in (2, 4):
            ranks = [sampler(segment, rank=r, world_size=world_size) for r in range(world_size)]
            assert {len(rank) for rank in ranks} == {len(ids(sampler(segment), 0)) // world_size}
            own = 4 // world_size
            parts = [ids(rank, number) for rank in ranks]
            steps = range(0, len(parts[0]), own)
            assert [m for s in steps for part in parts for m in part[s : s + own]] == whole


def test_a_mixture_goes_on_from_epoch_to_epoch():
    run = sampler(mixture())
    epochs = [ids(run, number) for number in range(4)]
    plan = run.batches.plan
    segment = plan.segments[0]
    flat = list(chain(*chain(*epochs)))
    expected = plan.draws(0, len(flat), np.zeros(1, np.int64))
    assert flat == (expected.sample_ids + 1000 * expected.sources).reshape(-1).tolist()
    assert segment.epoch_samples == 70
    for number in range(4):
        first, stop = run.batches.epoch_range(number)
        starts = [run.state_dict(step)["token_budget"]["now"]["position"] for step in range(first, stop)]
        assert {plan.epoch_of(start) for start in starts} == {number}
        assert stop == run.batches.epoch_range(number + 1)[0]


def test_a_step_longer_than_epochs_leaves_those_it_passes_without_steps():
    run = sampler(mixture(epoch_samples=5))
    ranges = [run.batches.epoch_range(number) for number in range(20)]
    assert any(first == stop for first, stop in ranges)
    assert all(run.batches.epoch_of(step) == number for number, span in enumerate(ranges) for step in range(*span))
    assert [a for a, _ in ranges[1:]] == [b for _, b in ranges[:-1]]


@pytest.mark.parametrize(
    "segment", [one_corpus(), one_corpus(last_batch="pad"), mixture(), mixture(epoch_samples=None)]
)
def test_a_run_goes_on_at_any_step_at_another_world_size(segment):
    whole = sampler(segment)
    batches = [list(chain(*whole.batches.of_steps(step, 1))) for step in range(14)]
    plain = [[m.sample_ids.tolist() for m in step] for step in batches]
    for step in range(12):
        state = json.loads(json.dumps(sampler(segment).state_dict(step)))
        assert state["step"] == step
        ranks = []
        for rank in range(2):
            lengths = Lengths()
            resumed = sampler(segment, rank=rank, world_size=2, lengths=lengths)
            resumed.load_state_dict(state)
            assert (resumed.step, lengths.asked) == (step, 0)
            ranks.append(resumed)
        found = []
        while len(found) < 14 - step:
            parts = [list(islice(iter(rank), 28)) for rank in ranks]
            found += [parts[0][s : s + 2] + parts[1][s : s + 2] for s in range(0, len(parts[0]), 2)]
        assert found[: 14 - step] == plain[step:]


@pytest.mark.parametrize("segment", [one_corpus(), one_corpus(last_batch="pad"), mixture()])
def test_a_resumed_run_knows_all_steps_and_epochs_of_the_run(segment):
    run = sampler(segment)
    states = [run.state_dict(step) for step in range(14)]
    ranges = [run.batches.epoch_range(number) for number in range(4)]
    for step in range(14):
        for at in range(14):
            resumed = sampler(segment)
            resumed.load_state_dict(states[step])
            assert resumed.state_dict(at) == states[at]
        for number in range(4):
            resumed = sampler(segment)
            resumed.load_state_dict(states[step])
            assert resumed.batches.epoch_range(number) == ranges[number]
    assert states[5]["epoch"] == run.batches.epoch_of(5)


@pytest.mark.parametrize("segment", [one_corpus(), mixture()])
def test_after_many_epochs_only_the_last_are_kept_and_none_is_walked_again(monkeypatch, segment):
    alive, walked = weakref.WeakSet(), []

    class Scan(EpochScan):
        def __init__(self, *args):
            super().__init__(*args)
            alive.add(self)

        def reaches(self, step):
            walked.append(step)
            return super().reaches(step)

    monkeypatch.setattr("tokenyard.datasets.budget.EpochScan", Scan)
    lengths = Lengths()
    run = sampler(segment, lengths=lengths)
    epochs = [ids(run, number) for number in range(30)]
    first, stop = run.batches.epoch_range(29)
    assert len(alive) <= 2
    walked.clear()
    lengths.asked = 0
    assert [m.sample_ids.tolist() for m in chain(*run.batches.of_steps(first, 100))] == epochs[29]
    assert run.batches.epoch_range(3)[1] == run.batches.epoch_range(4)[0]
    assert len(walked) <= 4
    assert lengths.asked == sum(map(len, epochs[29]))
    assert ids(run, 3) == epochs[3]
    assert run.batches.epoch_range(29) == (first, stop)


def test_however_many_steps_are_asked_for_few_rows_are_placed_for_all_ranks():
    lengths = Lengths()
    run = sampler(one_corpus(150_000), tokens=100, micro_batches=64, rank=5, world_size=64, lengths=lengths)
    run.batches.epoch_range(0)
    lengths.asked = 0
    steps = run.batches.of_steps(3, 10**6)
    assert 1 << 15 < lengths.asked <= 1 << 16
    assert steps[7][0].sample_ids.tolist() == run.batches.of_steps(10, 1)[0][0].sample_ids.tolist()


def test_a_step_of_many_rows_is_given_alone(monkeypatch):
    monkeypatch.setattr("tokenyard.datasets.budget._DRAWS_AT_ONCE", 1)
    steps = sampler().batches.of_steps(1, 10)
    assert [[m.sample_ids.tolist() for m in step] for step in steps] == [ids(sampler(), 0)[4:8]]


def test_an_epoch_that_is_set_begins_at_its_start_and_a_resumed_one_goes_on():
    run = sampler()
    epochs = [ids(run, number) for number in range(3)]
    assert [ids(sampler(), number) for number in (2, 0, 1)] == [epochs[2], epochs[0], epochs[1]]
    resumed = sampler()
    resumed.load_state_dict(run.state_dict(run.batches.epoch_range(1)[0] + 2))
    resumed.set_epoch(1)
    assert list(resumed) == epochs[1][8:]
    assert len(resumed) == len(epochs[2])
    assert list(resumed) == epochs[2]
    resumed.set_epoch(0)
    assert list(resumed) == epochs[0]


def test_an_epoch_without_end_has_no_length_and_is_not_gone_through():
    lengths = Lengths()
    run = sampler(mixture(epoch_samples=None), lengths=lengths)
    batches = list(islice(iter(run), 40))
    assert sum(map(len, batches)) <= lengths.asked < 6000
    with pytest.raises(TypeError, match="an epoch of this mixture has no end"):
        len(run)
    assert run.state_dict()["step"] == 10
    with pytest.raises(ConfigError, match="epoch: that of this mixture has no end, so that none follows it"):
        next(iter(run))
    run.set_epoch(0)
    assert list(islice(iter(run), 40)) == batches


@pytest.mark.parametrize("epoch_samples", [None, 70, 71, 1000])
@pytest.mark.parametrize("at_end", ["stop", "raise"])
def test_a_source_ends_the_run_before_the_step_that_would_need_more(at_end, epoch_samples):
    run = sampler(mixture(at_end=at_end, epoch_samples=epoch_samples))
    end = run.batches.plan.end
    found = []
    message = r"step \d+: source 0 \(s0\) has too few samples left of its max_epochs, 2, for another step"

    def read():
        for _ in range(200):
            found.extend(run)

    with pytest.raises(ConfigError, match=message):
        read()
    assert len(found) % 4 == 0
    used = sum(map(len, found))
    assert used <= end
    expected = list(islice(iter(sampler(mixture(epoch_samples=None))), len(found) + 4))
    assert found == expected[:-4]
    assert sum(map(len, expected)) > end
    state = run.state_dict()
    assert state["step"] == len(found) // 4
    again = sampler(mixture(at_end=at_end, epoch_samples=epoch_samples))
    again.load_state_dict(state)
    with pytest.raises(ConfigError, match=message):
        next(iter(again))
    with pytest.raises(ConfigError, match=message):
        run.state_dict(state["step"] + 1)
    assert run.batches.raises_at(state["step"]) == (at_end == "raise")


def test_the_largest_batches_fill_exactly_and_rows_without_tokens_count_as_one():
    assert full_batches([2, 2, 2, 2], 4) == [2]
    assert full_batches([4, 4], 4) == [1]
    assert full_batches([1, 3, 1], 6) == [2]
    assert full_batches([0] * 7, 3) == [3, 6]
    assert full_batches([], 3) == []


def test_a_change_of_settings_begins_at_a_step_and_takes_nothing_twice():
    run = sampler()
    state = run.state_dict(step=2)
    other = sampler(tokens=700, micro_batches=2)
    with pytest.raises(
        ConfigError,
        match=r"taken at step 2 of .* token_budget.tokens was 400 and is 700; token_budget.micro_batches was 4 and is 2"
        r".*new_segment=True",
    ):
        other.load_state_dict(state)
    other.load_state_dict(state, new_segment=True)
    rest = list(other)
    given = ids(run, 0)[:8]
    samples = list(chain(*given, *rest))
    assert len(samples) == len(set(samples)) > 90
    assert rest == plainly_cut(draws(one_corpus(), 0)[len(list(chain(*given))) :], 700)[: len(rest)]
    assert other.epoch == 1
    later = other.state_dict(other.step + 3)
    again = sampler(tokens=700, micro_batches=2)
    again.load_state_dict(later)
    assert again.state_dict(3) == other.state_dict(3)
    for resumed in (other, again):
        with pytest.raises(ConfigError, match=r"step 1 lies before step 2, at which the run's settings changed"):
            resumed.state_dict(1)
        assert resumed.batches.epoch_range(0)[0] == 0
    early = sampler(tokens=700, micro_batches=2)
    early.load_state_dict(run.state_dict(run.batches.epoch_range(1)[0] + 1), new_segment=True)
    with pytest.raises(ConfigError, match=r"epoch 0 lies before step \d+"):
        early.set_epoch(0)


def test_a_run_that_a_source_ended_goes_on_without_end_and_still_knows_its_past():
    ended, whole = (sampler(mixture(at_end=at_end, epoch_samples=None)) for at_end in ("stop", "repeat"))
    given = list(ended)
    expected = list(islice(whole, len(given) + 8))
    resumed = sampler(mixture(epoch_samples=None))
    resumed.load_state_dict(json.loads(json.dumps(ended.state_dict())))
    assert given + list(islice(resumed, 8)) == expected
    assert [batch.sample_ids.tolist() for batch in resumed.batches.of_steps(0, 1)[0]] == expected[:4]


def test_other_weights_begin_at_a_step_too():
    run = sampler(mixture())
    other = sampler(mixture(weights=(1, 3)))
    with pytest.raises(
        ConfigError, match=r"taken at step 3 of a run with other settings: weights .* were \[49152, 16384"
    ):
        other.load_state_dict(run.state_dict(3))
    other.load_state_dict(run.state_dict(3), new_segment=True)
    taken = list(chain(*ids(run, 0)))[: run.state_dict(3)["token_budget"]["now"]["position"]]
    after = list(chain(*islice(iter(other), 4)))
    assert not set(taken[:30]) & set(after)
    state = other.state_dict(4)
    assert len(state["segments"]) == 2
    again = sampler(mixture(weights=(1, 3)))
    again.load_state_dict(state)
    assert next(iter(again)) == other.batches.of_steps(4, 1)[0][0].sample_ids.tolist()
    with pytest.raises(ConfigError, match="step 2 lies before step 3"):
        again.state_dict(2)


def test_an_epoch_that_fills_no_step_is_refused_with_the_way_out():
    with pytest.raises(
        ConfigError,
        match=r"the 10 samples of epoch 0 fill 2 of the 4 micro-batches .* up to 900 tokens.* or choose last_batch pad",
    ):
        list(sampler(one_corpus(10), tokens=900))
    assert len(sampler(one_corpus(10, last_batch="pad"), tokens=900)) == 4


def test_ranks_that_cannot_share_a_step_are_told_numbers_that_can():
    with pytest.raises(
        ConfigError,
        match=r"token_budget.micro_batches: expected a multiple of world_size 3, found 4; the nearest: 3 and 6",
    ):
        sampler(world_size=3)


def test_states_of_other_runs_and_damaged_ones_are_refused():
    state = sampler().state_dict(3)

    def load(**changes):
        sampler().load_state_dict({**state, **changes})

    def load_budget(**changes):
        load(token_budget={**state["token_budget"], **changes})

    def load_now(**changes):
        load_budget(now={**state["token_budget"]["now"], **changes})

    load()
    with pytest.raises(ConfigError, match="state: expected what state_dict"):
        sampler().load_state_dict([])
    with pytest.raises(ConfigError, match="state: expected version 1, found 9"):
        load(version=9)
    with pytest.raises(ConfigError, match=r"state: token_budget.since: .*required.*give what state_dict"):
        load(token_budget={key: value for key, value in state["token_budget"].items() if key != "since"})
    with pytest.raises(ConfigError, match=r"state: token_budget.micro_batches: Input should be a valid integer"):
        load_budget(micro_batches=True)
    with pytest.raises(ConfigError, match=r"state: token_budget.now.step is 3, but step is 4"):
        load(step=4)
    with pytest.raises(ConfigError, match="state: epoch: 1 doesn't follow from the rest, which gives 0"):
        load(epoch=1)
    with pytest.raises(ConfigError, match=r"state: token_budget.now.epoch is 1, but its draw lies in epoch 0"):
        load_now(epoch=1)
    with pytest.raises(ConfigError, match=r"state: token_budget.now.epoch_step lies after now"):
        load_now(epoch_step=7)
    with pytest.raises(ConfigError, match=r"state: token_budget.since is the same as now in one of step and position"):
        load_now(position=0)
    with pytest.raises(ConfigError, match=r"state: token_budget.now.more: "):
        load_now(more=1)
    with pytest.raises(ConfigError, match=r"seed was 42 and is 1"):
        sampler(one_corpus(seed=1)).load_state_dict(state)
    with pytest.raises(ConfigError, match=r"last_batch was 'drop' and is 'pad'"):
        sampler(one_corpus(last_batch="pad")).load_state_dict(state)
    with pytest.raises(ConfigError, match="step: expected an int from 0"):
        sampler().state_dict(step=-1)


def test_marks_of_a_state_that_lack_a_key_or_misplace_their_epoch_are_refused():
    whole = sampler()
    state = whole.state_dict(step=whole.batches.epoch_range(1)[0] + 2)
    told = state["token_budget"]
    assert told["now"]["epoch"] == 1

    def load(**now):
        sampler().load_state_dict({**state, "token_budget": {**told, "now": now}})

    load(**told["now"])
    for key in ("epoch_step", "epoch_position"):
        with pytest.raises(ConfigError, match=rf"token_budget.now.{key}: .*required"):
            load(**{name: value for name, value in told["now"].items() if name != key})
    begin = told["now"]["epoch_position"]
    for place in (begin - 1, begin + 1):
        with pytest.raises(ConfigError, match=rf"now.epoch_position is {place}, but epoch 1 begins at draw {begin}"):
            load(**{**told["now"], "epoch_position": place})
    with pytest.raises(ConfigError, match=r"token_budget.since.epoch is 5, but its draw lies in epoch 0"):
        sampler().load_state_dict({**state, "token_budget": {**told, "since": {**told["since"], "epoch": 5}}})


def test_the_order_is_kept_for_ever():
    assert ids(sampler(), 1)[:5] == GOLDEN
    assert ids(sampler(mixture()), 1)[:5] == GOLDEN_MIXTURE


def test_states_and_epochs_may_be_asked_for_while_another_thread_takes_batches():
    calm = sampler(mixture(epoch_samples=None))
    expected = [calm.state_dict(step) for step in range(120)]
    taken = list(islice(iter(calm), 120 * 4))
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(8):
            busy = sampler(mixture(epoch_samples=None))
            with ThreadPoolExecutor(2) as pool:
                batches = pool.submit(lambda busy=busy: list(islice(iter(busy), 120 * 4)))
                states = pool.submit(lambda busy=busy: [busy.state_dict(step) for step in range(120)])
            assert states.result() == expected
            assert batches.result() == taken
    finally:
        sys.setswitchinterval(0.005)
    assert copy.deepcopy(busy.batches).state(7) == busy.batches.state(7)
