"""A state is a few numbers in JSON, from which a run goes on as if it had never stopped; or it is refused."""

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.datasets.order.plans import mixed_runs, mixture, segment, single_runs, source, steps_of
from tests.datasets.order.slow_plan import slow_run
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import Segment, Source
from tokenyard.datasets.order.state import State, rebase, to_json
from tokenyard.errors import ConfigError

Json = dict[str, Any]


def saved(plan: Plan, step: int) -> Json:
    """A state as a file gives it back."""
    state: Json = json.loads(json.dumps(to_json(plan, step)))
    return state


def resumed(plan: Plan, state: Json, **options: bool) -> Plan:
    return rebase(plan, State.from_json(state), **options)


@given(single_runs() | mixed_runs(), st.integers(0, 60))
def test_json_gives_back_the_state(segments: list[Segment], step: int) -> None:
    plan = Plan(segments)
    state = saved(plan, step)
    assert state == to_json(plan, step)
    found = State.from_json(state)
    assert found.step == step
    assert found.segments == tuple(segment for segment in segments if segment.first_step <= step)
    assert to_json(Plan(found.segments), step) == state


@given(single_runs() | mixed_runs(), st.lists(st.integers(1, 12), min_size=1, max_size=4))
@settings(max_examples=30)
def test_a_run_that_stops_again_and_again_is_the_run(segments: list[Segment], runs: list[int]) -> None:
    whole = Plan(segments)
    plan, step = whole, 0
    for length in runs:
        step += length
        plan = resumed(whole, saved(plan, step))
    assert steps_of(plan, 0, step + 15) == steps_of(whole, 0, step + 15)
    assert saved(plan, step) == saved(whole, step)


@given(single_runs() | mixed_runs())
@settings(max_examples=30)
def test_changes_that_nobody_planned_give_what_planned_ones_give(segments: list[Segment]) -> None:
    """Each segment is known only when it begins: the settings of the run are those of that segment alone."""
    plan = Plan(segments[:1])
    for now in segments[1:]:
        alone = Plan([Segment(**{**vars(now), "first_step": 0})])
        plan = resumed(alone, saved(plan, now.first_step), new_segment=True)
    end = segments[-1].first_step + 15
    assert steps_of(plan, 0, end) == slow_run(segments, end)


@given(single_runs() | mixed_runs())
@settings(max_examples=30)
def test_planned_changes_still_to_come_are_kept(segments: list[Segment]) -> None:
    plan = Plan(segments)
    for stop in range(segments[-1].first_step + 2):
        assert resumed(plan, saved(plan, stop)).segments == plan.segments


def test_a_state_is_as_small_after_a_trillion_steps() -> None:
    plan = Plan([mixture(source(0, 10**9, 2), source(1, 10**6), size=64, lanes=64)])
    early, late = (len(json.dumps(to_json(plan, step))) for step in (1, 10**12))
    assert late - early < 20


def test_a_state_tells_where_each_source_stood_when_a_segment_began() -> None:
    sources = [source(0, 40), source(1, 4)]
    plan = Plan(
        [mixture(*sources, size=4, epoch_samples=12), mixture(*sources, size=2, first_step=5, epoch_samples=12)]
    )
    state = saved(plan, 6)
    assert state["epoch"] == 1
    assert state["corpora"] == ["corpus 0", "corpus 1"]
    told = [[(s["epoch"], s["first_sample"]) for s in part["sources"]] for part in state["segments"]]
    # Five steps took ten of each.
    assert told == [[(0, 0), (0, 0)], [(0, 10), (2, 2)]]
    assert state["order"] == state["segments"][1]["order"]


def test_a_state_before_a_change_knows_nothing_of_it_and_one_at_it_does() -> None:
    plan = Plan([segment(40, size=4), segment(40, size=8, first_step=3)])
    assert [len(saved(plan, step)["segments"]) for step in (2, 3, 4)] == [1, 2, 2]


class TestSettings:
    """Of a run that goes on: those that still say the same, and those that don't."""

    def test_a_change_planned_at_the_very_step_is_taken(self) -> None:
        before = Plan([segment(40, size=4)])
        after = Plan([segment(40, size=4), segment(40, size=8, first_step=3)])
        assert resumed(after, saved(before, 3)).segments == after.segments
        assert resumed(after, saved(before, 2)).segments == after.segments

    def test_a_change_that_was_planned_for_the_very_step_and_is_no_more_is_left_out(self) -> None:
        before = Plan([segment(40, size=4), segment(40, size=8, first_step=3)])
        after = Plan([segment(40, size=4)])
        assert resumed(after, saved(before, 3)).segments == after.segments

    def test_a_change_planned_for_the_past_is_refused_unless_it_is_to_begin_now(self) -> None:
        late = Plan([segment(40, size=4), segment(40, size=8, first_step=3)])
        state = saved(Plan([segment(40, size=4)]), 5)
        with pytest.raises(ConfigError, match="global_batch_size was 4 and is 8"):
            resumed(late, state)
        found = resumed(late, state, new_segment=True)
        assert [(s.first_step, s.global_batch_size) for s in found.segments] == [(0, 4), (5, 8)]

    def test_a_past_change_need_not_be_planned_any_more(self) -> None:
        before = Plan([segment(40, size=4), segment(40, size=8, first_step=3)])
        now = Plan([segment(40, size=8)])
        for step in (3, 4):
            found = resumed(now, saved(before, step))
            assert [(s.first_step, s.global_batch_size) for s in found.segments] == [(0, 4), (3, 8)]

    def test_a_change_before_the_first_step_replaces_the_settings(self) -> None:
        state = saved(Plan([segment(40, size=4)]), 0)
        now = Plan([segment(40, size=8)])
        with pytest.raises(ConfigError, match="state: it was taken at step 0 of a run with other settings"):
            resumed(now, state)
        assert resumed(now, state, new_segment=True).segments == now.segments

    def test_windows_left_open_are_those_of_the_run(self) -> None:
        before, now = Plan([segment(40, window_blocks=3)]), Plan([segment(40, window_blocks=5)])
        assert resumed(now, saved(before, 2), any_window=True).segments == before.segments
        with pytest.raises(ConfigError, match="window_blocks was 3 and is 5"):
            resumed(now, saved(before, 2))

    def test_a_new_segment_where_nothing_differs_is_none(self) -> None:
        plan = Plan([segment(40, size=4)])
        assert resumed(plan, saved(plan, 3), new_segment=True).segments == plan.segments

    def test_weights_in_another_unit_are_the_same(self) -> None:
        plan = Plan([mixture(source(0, 40, 1), source(1, 40, 3))])
        assert len(resumed(Plan([mixture(source(0, 40, 0.25), source(1, 40, 0.75))]), saved(plan, 3)).segments) == 1

    def test_another_name_and_another_place_of_a_source_are_the_same(self) -> None:
        plan = Plan([mixture(source(0, 40, 1), source(1, 30, 3))])
        moved = [
            Source(id="corpus 1", number=0, num_samples=30, weight=3, name="b"),
            Source(id="corpus 0", number=1, num_samples=40, weight=1, name="a"),
        ]
        found = resumed(Plan([mixture(*moved)]), saved(plan, 3))
        assert steps_of(found, 3, 10) == steps_of(plan, 3, 10)

    def test_a_source_that_was_taken_out_and_comes_back_goes_on_where_it_was(self) -> None:
        a, b, c = source(0, 40), source(1, 40), source(2, 40)
        plan = Plan([mixture(a, b, size=4)])
        plan = resumed(Plan([mixture(Source(id="corpus 0", number=0, num_samples=40), size=4)]), saved(plan, 4),
                       new_segment=True)  # fmt: skip
        back = [Source(id=s.id, number=k, num_samples=40) for k, s in enumerate((c, b))]
        plan = resumed(Plan([mixture(*back, size=4)]), saved(plan, 6), new_segment=True)
        assert [[s.number for s in part.sources] for part in plan.segments] == [[0, 1], [0], [1, 2]]
        of_b = [slot for _, step in steps_of(plan, 0, 20) for slot in step if slot[0] == 1]
        assert len(of_b) == len(set(of_b)) == 8 + 28
        assert {epoch for _, epoch, _, _ in of_b} == {0}

    @pytest.mark.parametrize(
        ("now", "message"),
        [
            (
                lambda: segment(41),
                r"the corpora were \['corpus 40'\] and are \['corpus 41'\]; samples of an epoch were",
            ),
            (lambda: segment(40, seed=43), "seed was 42 and is 43"),
            (lambda: segment(40, shuffle="global"), "shuffle was 'block' and is 'global'"),
            (lambda: segment(40, block_samples=5), "block_samples was 4 and is 5"),
            (lambda: segment(40, window_blocks=5), "window_blocks was 2 and is 5"),
            (lambda: segment(40, lanes=2), "lanes was 1 and is 2"),
            (lambda: segment(40, size=4), "global_batch_size was 8 and is 4"),
            (lambda: segment(40, last_batch="pad"), "last_batch was 'drop' and is 'pad'"),
            (lambda: segment(40, seq_len=16), "seq_len was None and is 16"),
            (lambda: mixture(source(40, 40)), "mixture was False and is True"),
        ],
    )
    def test_settings_of_another_run_are_refused_by_name(self, now: Callable[[], Segment], message: str) -> None:
        state = saved(Plan([segment(40)]), 7)
        with pytest.raises(ConfigError, match=message) as caught:
            resumed(Plan([now()]), state)
        assert "state: it was taken at step 7 of a run with other settings: " in str(caught.value)
        may_change = message.startswith(("global_batch_size", "last_batch", "seq_len", "lanes"))
        way = (
            "load with new_segment=True, by which the change begins at that step" if may_change else "begin another run"
        )
        assert str(caught.value).endswith(f". Go on with the settings of that run, or {way}")

    def test_another_corpus_is_no_segment_of_a_run(self) -> None:
        state = saved(Plan([segment(40)]), 7)
        with pytest.raises(ConfigError, match="the corpus was corpus 40 and would become corpus 41"):
            resumed(Plan([segment(41)]), state, new_segment=True)

    @pytest.mark.parametrize(
        ("now", "message"),
        [
            (
                [source(0, 40, 1), source(1, 40, 4)],
                r"weights \(draws of 65536\) were \[32768, 32768\] and are \[13107, ",
            ),
            ([source(0, 40)], r"the corpora were \['corpus 0', 'corpus 1'\] and are \['corpus 0'\]"),
        ],
    )
    def test_another_mixture_is_refused_by_what_differs(self, now: list[Source], message: str) -> None:
        state = saved(Plan([mixture(source(0, 40), source(1, 40), epoch_samples=16)]), 7)
        with pytest.raises(ConfigError, match=message):
            resumed(Plan([mixture(*now, epoch_samples=16)]), state)
        with pytest.raises(ConfigError, match="epoch_samples was 16 and is 24"):
            resumed(Plan([mixture(source(0, 40), source(1, 40), epoch_samples=24)]), state)

    @pytest.mark.parametrize("at_end", ["stop", "raise"])
    def test_a_run_at_its_end_goes_on_with_more_epochs_or_without_end_as_if_it_had_begun_so(self, at_end: Any) -> None:
        def run(limit: Any, max_epochs: int) -> Plan:
            sources = [source(0, 11, 1, at_end=limit, max_epochs=max_epochs), source(1, 50, 2)]
            return Plan([mixture(*sources, size=6), mixture(*sources, size=3, first_step=2)])

        ended, longer, endless = run(at_end, 1), run(at_end, 2), run("repeat", 1)
        assert ended.end is not None
        assert longer.end is not None
        for step in (0, 1, 2, 3, ended.end):
            for whole in (longer, endless):
                found = resumed(whole, saved(ended, step))
                assert (found.end, found.ended_by) == (whole.end, whole.ended_by)
                assert steps_of(found, 0, longer.end) == steps_of(whole, 0, longer.end)
                again = State.from_json(saved(found, step + 1))
                assert rebase(whole, again).segments == found.segments
        # And the other way round; a run that is past its new end is over.
        found = resumed(ended, saved(longer, longer.end))
        assert found.end == ended.end
        with pytest.raises(ConfigError, match=r"has given all samples of its max_epochs, 1, by step"):
            found.check_not_ended(longer.end)

    def test_segments_of_the_past_keep_where_their_sources_would_have_ended(self) -> None:
        before = [source(0, 40, at_end="stop"), source(1, 40)]
        now = [source(0, 40, at_end="stop", max_epochs=3), source(1, 40)]
        state = saved(Plan([mixture(*before, size=4), mixture(*before, size=8, first_step=2)]), 4)
        found = resumed(Plan([mixture(*now, size=8)]), state)
        assert [segment.sources[0].max_epochs for segment in found.segments] == [1, 3]
        assert [segment.first_step for segment in found.segments] == [0, 2]

    def test_a_new_segment_changes_no_order(self) -> None:
        state = saved(Plan([segment(40)]), 7)
        with pytest.raises(ConfigError, match="segment from step 7: seed was 42 and would become 43, which is another"):
            resumed(Plan([segment(40, seed=43)]), state, new_segment=True)

    def test_a_corpus_known_by_its_files_whose_digest_is_known_now_is_refused_with_the_reason(self) -> None:
        of_others = Source(id="structural:ab", num_samples=40)
        plan = Plan([segment(of_others)])
        assert resumed(plan, saved(plan, 7)).segments == plan.segments
        others = Source(id="structural:cd", num_samples=40), Source(id="ty1:cd", num_samples=40)
        of_state = "; the state knows a corpus that others made by its files, .* loads from any format"
        of_settings = "; a corpus of these settings has no digest to be known by: tokenyard index PATH gives it one"
        for was, now, ways in (
            (of_others, others[0], of_state + of_settings),
            (of_others, others[1], of_state),
            (others[1], of_others, r"are \['structural:ab'\]" + of_settings),
        ):
            with pytest.raises(ConfigError, match=ways + r"\. Go on"):
                resumed(Plan([segment(now)]), saved(Plan([segment(was)]), 7))


class TestDamage:
    @pytest.mark.parametrize("state", [None, [], "step 3", 3, {}, {"step": 3}])
    def test_what_is_no_state_is_refused(self, state: object) -> None:
        with pytest.raises(ConfigError, match=r"state: expected what state_dict\(\) gave, found"):
            State.from_json(state)

    @pytest.mark.parametrize("version", [0, 2, "1", None])
    def test_another_version_is_refused(self, version: object) -> None:
        state = {**saved(Plan([segment(40)]), 3), "version": version}
        with pytest.raises(ConfigError, match=f"state: expected version 1, found {version!r}; it was taken by another"):
            State.from_json(state)

    @pytest.mark.parametrize("keys", [["step"], ["segments", "corpora"], ["order"], ["epoch"]])
    def test_missing_keys_are_named(self, keys: list[str]) -> None:
        state = saved(Plan([segment(40)]), 3)
        for key in keys:
            del state[key]
        with pytest.raises(ConfigError, match=f"state: it lacks {', '.join(sorted(keys))}; give the whole of what"):
            State.from_json(state)

    @pytest.mark.parametrize("step", [-1, 1.5, "3", None, True])
    def test_a_step_that_is_none_is_refused(self, step: object) -> None:
        state = {**saved(Plan([segment(40)]), 3), "step": step}
        with pytest.raises(ConfigError, match=f"state: step: expected a whole number from 0 on, found {step!r}"):
            State.from_json(state)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                lambda s: s.update(step=30),
                "state: epoch: 0 doesn't follow from the rest, which gives 6; it was changed",
            ),
            (lambda s: s.update(epoch=1), "state: epoch: 1 doesn't follow from the rest, which gives 0"),
            (lambda s: s.update(corpora=["other"]), r"state: corpora: \['other'\] doesn't follow from the rest"),
            (lambda s: s["order"].update(seed=1), "state: order: .*'seed': 1.* doesn't follow"),
            (lambda s: s["segments"].clear(), "state: segments: there is none; give the whole of what state_dict"),
            (lambda s: s.update(model={}, lr=1), r"state: it has model, lr, which no state has; give what"),
            (lambda s: s["segments"][0].update(first_step=1), "segments: the first segment of a run begins at step 0"),
            (
                lambda s: s["segments"][0].update(more=1),
                "state: segments: 0.more: Unexpected keyword argument; give wha",
            ),
            (lambda s: s["segments"][0].pop("order"), "state: segments: 0.order: Field required"),
            (lambda s: s["segments"][0].pop("sources"), "state: segments: 'sources' is missing; give what state_d"),
            (
                lambda s: s["segments"][0].update(global_batch_size="8"),
                "segments: 0.global_batch_size: Input should be",
            ),
            (lambda s: s["segments"][0].update(global_batch_size=0), "global_batch_size: expected an int from 1"),
            (lambda s: s["segments"][0]["order"].update(lanes=3), "lanes: expected a divisor of global_batch_size 8"),
            (lambda s: s["segments"][0]["sources"][0].update(epoch=1), "state: segments: .* doesn't follow"),
            (lambda s: s["segments"][0]["sources"][0].pop("epoch"), "state: segments: .* doesn't follow"),
            (lambda s: s["segments"][0]["sources"][0].update(first_sample=9), "state: segments: .* doesn't follow"),
            (lambda s: s.update(segments=None), "state: segments: there is none; give the whole"),
            (lambda s: s.update(segments=[3]), "state: segments: .*; give what state_dict"),
            (lambda s: s.update(segments={"a": 1}), "state: segments: .*; give what state_dict"),
            (
                lambda s: s["segments"].append({**copy.deepcopy(s["segments"][0]), "first_step": 9}),
                "state: segments: .* doesn't follow",
            ),
        ],
    )
    def test_a_state_changed_by_hand_is_refused_with_the_key(
        self, change: Callable[[Json], object], message: str
    ) -> None:
        state = saved(Plan([segment(40)]), 3)
        assert State.from_json(state).step == 3
        change(state)
        with pytest.raises(ConfigError, match=message):
            State.from_json(state)

    @given(single_runs(changes=0) | mixed_runs(changes=0), st.integers(0, 30), st.data())
    def test_a_number_that_decides_what_comes_can_not_be_changed_unseen(
        self, segments: list[Segment], step: int, data: st.DataObject
    ) -> None:
        """It is refused at once, or as a state of another run; or it is only another step of the same epoch."""
        plan = Plan(segments)
        state = saved(plan, step)
        # The number of a source is the run's own affair, how far it may go that of the settings; the weight of a source
        # that is alone decides nothing.
        free = {"number", "max_epochs"} if len(segments[0].sources) > 1 else {"number", "max_epochs", "weight"}
        path, value = data.draw(st.sampled_from([found for found in numbers_of(state) if found[0][-1] not in free]))
        changed = copy.deepcopy(state)
        inner: Any = changed
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = value + data.draw(st.sampled_from([-1, 1, 7]))
        try:
            resumed(plan, changed)
        except ConfigError:
            return
        assert path == ("step",)

    def test_what_samplers_and_iterations_add_to_a_state_is_known(self) -> None:
        state = saved(Plan([segment(40)]), 3)
        found = State.from_json({**state, "micro_batches_past": 1, "stop_step": None, "token_budget": {}})
        assert found == State.from_json(state)

    def test_a_step_that_is_none_has_no_state(self) -> None:
        with pytest.raises(ConfigError, match=r"step: expected an int from 0 to .*, found -3"):
            to_json(Plan([segment(40)]), -3)


def numbers_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """The path of every number."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in numbers_of(inner, (*path, key))]
    if isinstance(value, list):
        return [found for key, inner in enumerate(value) for found in numbers_of(inner, (*path, key))]
    return [(path, value)] if type(value) in (int, float) else []


@pytest.mark.parametrize("value", [np.int64(3), np.arange(2), {1, 2}])
def test_values_that_are_no_json_are_refused_as_damage(value):
    state = to_json(Plan([segment(40)]), 3)
    with pytest.raises(ConfigError, match=r"state: corpora: .* doesn't follow from the rest"):
        State.from_json({**state, "corpora": value})
    with pytest.raises(ConfigError, match="state: expected version 1, found True"):
        State.from_json({**state, "version": True})
