"""What a run of so many steps takes of its corpora, told beforehand: samples, tokens, shares and epochs of each."""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenyard.datasets.batches import Batches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order.plan import Course, Plan
from tokenyard.datasets.order.segment import ENDLESS, AtEnd, Segment
from tokenyard.datasets.planning import corpus_id

#: Steps to tell of where an epoch of a mixture has no end.
ENDLESS_STEPS = 10_000


@dataclass(frozen=True, kw_only=True)
class SourceReport:
    """What some steps take of one corpus. Shares are from 0 to 1, and add up to 1 over all sources.

    Attributes:
        name: its name.
        number: its number in the keys of the order.
        id: its content digest, or its structural id.
        samples: the samples taken; padding isn't counted.
        tokens: their tokens: of windows exactly, of rows by their mean length.
        asked_samples: the share of all samples that the weights ask for over these steps.
        asked_tokens: the same of tokens, by mean tokens of a sample.
        share_samples: the share of all samples that it gets.
        share_tokens: the same of tokens.
        epochs: how often it is gone through when they are done, as 1.25; what was left out of an epoch counts as done.
        at_end: what happens when all its epochs are gone through; a corpus that is no source of a mixture repeats.
        max_epochs: how many these are; None where it repeats for ever.
    """

    name: str
    number: int
    id: str
    samples: int
    tokens: float
    asked_samples: float
    asked_tokens: float
    share_samples: float
    share_tokens: float
    epochs: float
    at_end: AtEnd
    max_epochs: int | None


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """What the first steps of a run take.

    Attributes:
        steps: how many steps; fewer than were asked for where a source ends the run before.
        samples: samples of all sources; padding isn't counted.
        tokens: their tokens, as those of sources.
        end: the step before which a source ends the run, whatever was asked for; None where none does, and under a
            token budget also where it does so after these steps.
        ended_by: the name of that source, if one does.
        sources: an entry for each source that these steps may draw from, by ascending number.
    """

    steps: int
    samples: int
    tokens: float
    end: int | None
    ended_by: str | None
    sources: tuple[SourceReport, ...]


def run_report(batches: Batches, dataset: TokenDataset, steps: int) -> RunReport:
    """Return what the first steps of a run take of each source. A single corpus is a source too.

    Where steps are grouped by length, those of an unfinished group count as they were before they shared out samples.

    Args:
        batches: of any rank of the run; under a token budget, lengths of rows are gone through.
        dataset: where samples come from; it knows the lengths of rows.
        steps: how many steps, from 0 on.

    Raises:
        ConfigError: there are more than can be counted.
    """
    plan, progress = batches.plan, batches.progress(steps)
    means = {corpus_id(corpus): corpus.num_tokens / max(1, len(corpus)) for corpus in dataset.corpora}
    names = dict(zip(map(corpus_id, dataset.corpora), dataset.source_names, strict=True))
    drawn: dict[int, int] = {}
    tokens: dict[int, float] = {}
    asked: dict[int, float] = {}
    asked_tokens: dict[int, float] = {}
    epochs: dict[int, float] = {}
    sources = {}
    for segment, course, taken in _reached(plan, progress.plan_steps):
        draws = course.num_draws(taken)
        epochs |= course.num_epochs(taken)
        total = sum(draws.values())
        weights = sum(source.weight for source in segment.sources)
        for source in segment.sources:
            k = source.number
            sources[k] = source
            mean = segment.seq_len or means.get(source.id, 0.0)
            share = total * source.weight / weights
            # Only of a single corpus anything is left out, which its plan, of draws, counts.
            drawn[k] = drawn.get(k, -progress.left_out) + draws[k]
            tokens[k] = tokens.get(k, -progress.left_out * mean) + draws[k] * mean
            asked[k] = asked.get(k, 0.0) + share
            asked_tokens[k] = asked_tokens.get(k, 0.0) + share * mean
    return RunReport(
        steps=progress.steps,
        samples=sum(drawn.values()),
        tokens=sum(tokens.values()),
        end=progress.end,
        ended_by=None if plan.ended_by is None else plan.ended_by.name or names.get(plan.ended_by.id),
        sources=tuple(
            SourceReport(
                name=source.name or names.get(source.id, ""),
                number=k,
                id=source.id,
                samples=drawn[k],
                tokens=tokens[k],
                asked_samples=_share(asked, k),
                asked_tokens=_share(asked_tokens, k),
                share_samples=_share(drawn, k),
                share_tokens=_share(tokens, k),
                epochs=epochs[k],
                at_end=source.at_end,
                max_epochs=None if source.at_end == "repeat" else source.max_epochs,
            )
            for k, source in sorted(sources.items())
        ),
    )


def _reached(plan: Plan, steps: int) -> list[tuple[Segment, Course, int]]:
    """Return the segments that begin before a step, with their arithmetic and how many of the steps are theirs."""
    stops = [*(segment.first_step for segment in plan.segments[1:]), ENDLESS]
    return [
        (segment, course, min(stop, steps) - segment.first_step)
        for segment, course, stop in zip(plan.segments, plan.courses, stops, strict=True)
        if segment.first_step < steps or not segment.first_step
    ]


def _share(amounts: Mapping[int, float], k: int) -> float:
    total = sum(amounts.values())
    return amounts[k] / total if total else 0.0
