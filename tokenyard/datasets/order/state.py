"""Where a run stands, as a few numbers in JSON: they load at any world size, worker count, format or path.

A state is the history of the run's segments and a step. Everything else follows by arithmetic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tokenyard.datasets.order.plan import Plan, check_change
from tokenyard.datasets.order.schedule import quotas
from tokenyard.datasets.order.segment import Segment
from tokenyard.errors import ConfigError

VERSION = 1
_SEGMENTS = TypeAdapter(tuple[Segment, ...], config=ConfigDict(strict=True, extra="forbid"))
#: What a source of a segment tells beside its parameters: where it stood when the segment began.
_TOLD = ("epoch", "first_sample")
_KEYS = ("version", "corpora", "order", "step", "epoch", "segments")
#: What others say beside these: the sampler, an iteration of it, and batches by a budget of tokens.
_KEYS_OF_OTHERS = ("micro_batches_past", "stop_step", "token_budget")
_PLURAL = ("the corpora", "samples of an epoch", "weights (draws of 65536)")


@dataclass(frozen=True, kw_only=True)
class State:
    """What a state says.

    Attributes:
        step: steps that are done.
        segments: the run up to there; the last one may begin at that very step.
    """

    step: int
    segments: tuple[Segment, ...]

    def renamed(self, ids: Mapping[str, str]) -> State:
        """Return it with corpora known by other ids: a corpus that others made may have been given a digest since."""
        segments = [
            replace(s, sources=tuple(replace(source, id=ids.get(source.id, source.id)) for source in s.sources))
            for s in self.segments
        ]
        return replace(self, segments=tuple(segments))

    @classmethod
    def from_json(cls, state: object) -> State:
        """Read what `to_json` gave.

        Raises:
            ConfigError: it is of another version, damaged, or was changed by hand; the message names the key.
        """
        state = checked_state(state)
        if type(state["version"]) is not int or state["version"] != VERSION:
            raise ConfigError(
                f"state: expected version {VERSION}, found {state['version']!r}; it was taken by another release of "
                "tokenyard, go on with that one"
            )
        missing = [key for key in _KEYS if key not in state]
        if missing:
            raise ConfigError(f"state: it lacks {', '.join(missing)}; give the whole of what state_dict() gave")
        unknown = [str(key) for key in state if key not in _KEYS and key not in _KEYS_OF_OTHERS]
        if unknown:
            raise ConfigError(
                f"state: it has {', '.join(unknown)}, which no state has; give what state_dict() gave, and that alone"
            )
        if not state["segments"]:
            raise ConfigError("state: segments: there is none; give the whole of what state_dict() gave")
        step = state["step"]
        if type(step) is not int or step < 0:
            raise ConfigError(f"state: step: expected a whole number from 0 on, found {step!r}")
        try:
            found = cls(step=step, segments=_SEGMENTS.validate_json(json.dumps(_without_told(state["segments"]))))
        except (ValidationError, TypeError, AttributeError, KeyError) as e:
            raise ConfigError(f"state: segments: {first_problem(e)}; give what state_dict() gave, unchanged") from None
        plan = Plan(found.segments)
        derived = to_json(plan, step)
        for key in _KEYS:
            if not _is_same(derived[key], state[key]):
                raise ConfigError(
                    f"state: {key}: {state[key]!r:.200} doesn't follow from the rest, which gives "
                    f"{derived[key]!r:.200}; it was changed by hand or damaged"
                )
        return found


def checked_state(state: object) -> Mapping[str, Any]:
    """Return it where it may be a state at all. Raises ConfigError."""
    if not isinstance(state, Mapping) or "version" not in state:
        raise ConfigError(
            f"state: expected what state_dict() gave, found {state!r:.80}; load what was saved of it, or load nothing "
            "to begin the run anew"
        )
    return state


def _is_same(a: Any, b: Any) -> bool:
    """Compare as JSON does: arrays, and what else is none of its values, are never the same."""
    try:
        return bool(json.loads(json.dumps(a)) == json.loads(json.dumps(b)))
    except TypeError:
        return False


def to_json(plan: Plan, step: int) -> dict[str, Any]:
    """Return the state of a run after `step` steps: version, corpora, order, step, epoch, segments.

    Raises:
        ConfigError: the step is no whole number from 0 on.
    """
    last = plan.segment_number(step)
    segments = []
    for i in range(last + 1):
        told = asdict(plan.segments[i])
        streams = plan.courses[i].left.streams
        for source in told["sources"]:
            stream = streams.get(source["number"])
            epoch, left = (0, source["num_samples"]) if stream is None else (stream.next_epoch, source["num_samples"])
            if stream is not None and stream.parts:
                epoch, left = stream.parts[0][0], stream.parts[0][1].size
            source.update(epoch=epoch, first_sample=source["num_samples"] - left)
        told["sources"] = list(told["sources"])
        if told["group_steps"] == 1:  # states of runs without groups are as they were before there were any
            del told["group_steps"]
        segments.append(told)
    return {
        "version": VERSION,
        "corpora": [source.id for source in plan.segments[last].sources],
        "order": asdict(plan.segments[last].order),
        "step": step,
        "epoch": plan.epoch_of(step),
        "segments": segments,
    }


def rebase(
    plan: Plan, state: State, *, new_segment: bool = False, any_window: bool = False, step_told: int | None = None
) -> Plan:
    """Return the plan of a run that goes on from a state by the settings of `plan`.

    The state's segments are the past. The settings must agree with them at the state's step, unless they plan a change
    there; with `new_segment` what differs begins a new segment at that step. How far sources may go (`at_end` and
    `max_epochs`) decides no sample that was given, so that it need not agree: the settings say it from that step on.

    Args:
        plan: what the settings say of the whole run.
        state: where it stands.
        new_segment: whether what differs begins a new segment, instead of an error.
        any_window: whether the settings leave `window_blocks` open, so that the state's holds.
        step_told: the step that messages name, where those of the plan are draws.

    Raises:
        ConfigError: the settings differ from the state; the message names in what.
    """
    step, known = state.step, state.segments
    window = known[0].order.window_blocks if any_window else None
    numbers = {source.id: source.number for segment in known for source in segment.sources}
    segments = [_fitted(segment, numbers, window) for segment in plan.segments]
    past = [segment for segment in known if segment.first_step < step]
    before = [segment for segment in segments if segment.first_step < step]
    if past and _alike(past[-1], before[-1]):
        found = _gone_on(past, before[-1], segments[len(before) :], step)
        if found is not None:
            return found
    now = [segment for segment in segments if segment.first_step <= step][-1]
    later = [segment for segment in segments if segment.first_step > step]
    if _alike(known[-1], now):
        found = _gone_on(known, now, later, step)
        if found is not None:
            return found
    if not new_segment:
        raise ConfigError(_differences(known[-1], now, step if step_told is None else step_told))
    return Plan([*past, replace(now, first_step=step), *later])


def _fitted(segment: Segment, known: Mapping[str, int], window_blocks: int | None) -> Segment:
    """Give its sources the numbers that the run knows them by, and its order the run's windows.

    New sources keep their own numbers where these are free, so that one that is drawn from later on has the same number
    whether or not the run stops before.
    """
    numbers = dict(known)
    for source in segment.sources:
        taken = set(numbers.values())
        numbers.setdefault(source.id, max(taken) + 1 if source.number in taken else source.number)
    sources = sorted(
        (replace(source, number=numbers[source.id]) for source in segment.sources), key=lambda source: source.number
    )
    order = segment.order if window_blocks is None else replace(segment.order, window_blocks=window_blocks)
    return replace(segment, sources=tuple(sources), order=order)


def _gone_on(history: Sequence[Segment], now: Segment, later: Sequence[Segment], step: int) -> Plan | None:
    """Return the plan in which a history goes on to other ends of its sources; None where what it gave depends on them.

    That is so in a group that is cut short by the end of the run, as its samples are shared out among its steps.
    """
    last = history[-1]
    pairs = zip(last.sources, now.sources, strict=True)
    going_on = replace(last, sources=tuple(replace(a, at_end=b.at_end, max_epochs=b.max_epochs) for a, b in pairs))
    plan = Plan([*history[:-1], going_on, *later])
    if last.group_steps == 1 or going_on == last or last.first_step == step:
        return plan
    return plan if plan.group(step - 1) == Plan(history).group(step - 1) else None


def same_samples(a: Sequence[Segment], b: Sequence[Segment]) -> bool:
    """Return whether segments give the same samples, however far their sources may go."""
    return len(a) == len(b) and all(x.first_step == y.first_step and _alike(x, y) for x, y in zip(a, b, strict=True))


def _alike(a: Segment, b: Segment) -> bool:
    return _comparable(a) == _comparable(b)


def _comparable(segment: Segment) -> dict[str, Any]:
    """What decides the samples of a segment, by the names that settings have."""
    sources = segment.sources
    found: dict[str, Any] = {
        "the corpora": [source.id for source in sources],
        "samples of an epoch": [source.num_samples for source in sources],
        **asdict(segment.order),
        "global_batch_size": segment.global_batch_size,
        "last_batch": segment.last_batch,
        "seq_len": segment.seq_len,
        "samples_per_unit": segment.samples_per_unit,
        "length_grouping.steps": segment.group_steps,
        "mixture": segment.is_mixture,
        "epoch_samples": segment.epoch_samples,
    }
    if segment.is_mixture:
        found["weights (draws of 65536)"] = list(quotas([source.weight for source in sources]))
    return found


def _told(segment: Segment) -> dict[str, Any]:
    """What messages compare: in groups, where the run ends too."""
    found = _comparable(segment)
    if segment.is_mixture and segment.group_steps > 1:
        found["at_end"] = [(source.at_end, source.max_epochs) for source in segment.sources]
    return found


def _differences(was: Segment, now: Segment, step: int) -> str:
    a, b = _told(was), _told(now)
    differing = []
    for name in (name for name in b if a.get(name) != b[name]):
        were, are = ("were", "are") if name in _PLURAL else ("was", "is")
        differing.append(f"{name} {were} {a.get(name)!r} and {are} {b[name]!r}")
    ways = _ways_to_a_digest(a["the corpora"], b["the corpora"])
    return other_settings(step, "; ".join([*differing, *ways]), may_change=_may_follow(was, now))


def _ways_to_a_digest(was: Sequence[str], now: Sequence[str]) -> list[str]:
    """What helps where corpora differ, and one that others made is known by its files: its content has no digest."""
    ways = []
    if was != now and any(corpus.startswith("structural:") for corpus in was):
        ways.append(
            "the state knows a corpus that others made by its files, which no other format has: run tokenyard index "
            "PATH where that run read it, load the state there and save it again, by which it names the content's "
            "digest and loads from any format"
        )
    if was != now and any(corpus.startswith("structural:") for corpus in now):
        ways.append("a corpus of these settings has no digest to be known by: tokenyard index PATH gives it one")
    return ways


def other_settings(step: int, differing: str, *, may_change: bool = True) -> str:
    """Return the message for a state whose settings differ, with the ways out that there are."""
    change = (
        "load with new_segment=True, by which the change begins at that step" if may_change else "begin another run"
    )
    return (
        f"state: it was taken at step {step} of a run with other settings: {differing}. Go on with the settings of "
        f"that run, or {change}"
    )


def _may_follow(was: Segment, now: Segment) -> bool:
    """Return whether a segment may have these parameters after one that had those."""
    try:
        check_change(was, replace(now, first_step=was.first_step + 1))
    except ConfigError:
        return False
    return True


def _without_told(segments: Any) -> list[dict[str, Any]]:
    return [
        {
            **segment,
            "sources": [{k: v for k, v in source.items() if k not in _TOLD} for source in segment["sources"]],
        }
        for segment in segments
    ]


def first_problem(error: Exception) -> str:
    """Return, for a message, what was wrong when a state was read, and where."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    if not isinstance(error, ValidationError):
        return str(error)
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
