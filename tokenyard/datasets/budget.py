"""Global batches of as many rows as a budget of tokens allows; see `order.budget` for what they take."""

import functools
import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.batches import MicroBatch, Progress, numbers_in_dataset
from tokenyard.datasets.budget_scan import Bounds, EpochScan, Mark
from tokenyard.datasets.budget_state import budget_from_json, budget_to_json
from tokenyard.datasets.order.budget import Budget, full_batches
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import ENDLESS, Source
from tokenyard.datasets.order.state import other_settings, rebase, same_samples
from tokenyard.datasets.rank_context import RankContext
from tokenyard.errors import ConfigError
from tokenyard.permutation.checks import check_int

Int64Array = NDArray[np.int64]
P = ParamSpec("P")
R = TypeVar("R")

#: Draws of all ranks that are placed at a time, where steps are short.
_DRAWS_AT_ONCE = 1 << 16
#: Epochs whose steps are kept: what reads ahead is in the next one already when a state of this one is asked for.
_EPOCHS_KEPT = 2


def _one_at_a_time(method: Callable[P, R]) -> Callable[P, R]:
    """Let one thread at a time ask for what goes through lengths: one takes batches, another asks for states."""

    @functools.wraps(method)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with args[0].asking:  # type: ignore[attr-defined]  # those of BudgetBatches have this
            return method(*args, **kwargs)

    return alone


class BudgetBatches:
    """Global batches of a fixed number of micro-batches, each of as many rows as fit into a budget. See `Batches`.

    Where a step begins is found by going through the lengths of rows, from the nearest step that is known: the first
    of the run, the one at which a state was taken, and the first one of each epoch that was come to. The steps of the
    last epochs asked for are kept. Safe in threads.

    Args:
        plan: the draws, as steps of one slot.
        budget: how large batches are.
        context: the rank, and the corpora, whose rows have lengths, none above the budget.
        now: a step that is known, at which the run goes on.
        since: the step from which on the settings have been these, known too.

    Raises:
        ConfigError: the ranks can't share the micro-batches of a step.
    """

    def __init__(
        self,
        plan: Plan,
        budget: Budget,
        context: RankContext,
        *,
        now: Mark | None = None,
        since: Mark | None = None,
    ) -> None:
        self.asking = threading.RLock()
        self.plan, self.budget = plan, budget
        self.rank, self.world_size = context.rank, context.world_size
        self.pads = any(segment.last_batch == "pad" for segment in plan.segments)
        self._own = budget.of_rank(self.rank, self.world_size)
        self._context = context
        self.first_id = context.first_id
        self._since, now = since or Mark.first(), now or Mark.first()
        # Steps that are known, ascending; of epochs that follow one another, one each.
        self._marks = [self._since]
        self._scans: dict[Mark, EpochScan] = {}
        # Of each epoch that was gone through, the draws that no step takes.
        self._left_out: dict[int, int] = {}
        for mark in (now.of_epoch, now):
            if mark.step > self._marks[-1].step:
                self._marks.append(mark)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "asking"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.asking = threading.RLock()

    @property
    def is_invertible(self) -> bool:
        """No: the plan has draws, and lengths say which step takes them."""
        return False

    @_one_at_a_time
    def steps_with(self, plan_step: int) -> range:
        """Return the step that takes a draw. Goes through lengths, up to that draw."""
        scan = self._scan(self._marks[self._known(lambda mark: mark.position, plan_step, f"draw {plan_step}")])
        while not scan.passes(plan_step):
            if scan.ends_run:
                return range(0)
            mark = self._after(scan)
            if mark.position > plan_step:
                return range(0)
            scan = self._scan(mark)
        step = scan.mark.step + bisect_right(scan.starts, plan_step) - 1
        return range(step, step + 1)

    @_one_at_a_time
    def progress(self, steps: int) -> Progress:
        """Return how far the plan is. Goes through lengths; of what was before settings changed nothing is left out."""
        scan = self._scan_of(steps)
        mark = scan.at(min(steps, scan.stop_step))
        return Progress(
            steps=mark.step,
            plan_steps=mark.position,
            left_out=0 if self.plan.segment(mark.position).is_mixture else self._left_out_before(mark.epoch),
            end=scan.stop_step if scan.ends_run else None,
        )

    @_one_at_a_time
    def epoch_of(self, step: int) -> int:
        """Return the epoch in which a step lies. Goes through lengths, up to that step."""
        if step >= ENDLESS:
            return self.plan.epoch_of(step)
        return self._scan_of(step).mark.epoch

    @_one_at_a_time
    def epoch_range(self, epoch: int) -> tuple[int, int]:
        """Return the first step of an epoch, and the first after it. Goes through all lengths up to there."""
        check_int("epoch", epoch, at_least=0)
        number = self._known(lambda mark: mark.epoch, epoch, f"epoch {epoch}")
        mark, later = self._marks[number], self._marks[number + 1 : number + 2]
        if later and mark.epoch == epoch == later[0].epoch - 1:
            return mark.epoch_step, later[0].epoch_step
        while mark.epoch < epoch:
            if self._has_no_end(mark.epoch):
                return ENDLESS, ENDLESS
            scan = self._scan(mark)
            stop = scan.finish()
            if scan.ends_run:
                return stop, stop
            mark = self._after(scan)
        if mark.epoch > epoch:  # a step as long as the epoch goes past it
            return mark.epoch_step, mark.epoch_step
        return mark.epoch_step, ENDLESS if self._has_no_end(epoch) else self._scan(mark).finish()

    def num_micro_batches(self, start: int, stop: int) -> int:
        """Return the micro-batches of some steps."""
        return (stop - start) * len(self._own)

    @_one_at_a_time
    def of_steps(self, step: int, at_most: int) -> list[list[MicroBatch]]:
        """Return the micro-batches of some steps, of which all ranks together have about `_DRAWS_AT_ONCE` samples."""
        return self._micro_batches(step, at_most, self._own)

    @_one_at_a_time
    def of_ranks(self, step: int, at_most: int) -> list[list[MicroBatch]]:
        """Return the micro-batches of some steps, of all ranks."""
        return self._micro_batches(step, at_most, range(self.budget.micro_batches))

    @_one_at_a_time
    def check(self, step: int) -> None:
        """Raise ConfigError where a source has ended the run, or it never comes to a step."""
        if step >= ENDLESS:
            self.plan.check_not_ended(step)
        source = self._ended_by(step)
        if source is not None:
            raise ConfigError(
                f"step {step}: {source.label} has too few samples left of its max_epochs, {source.max_epochs}, for "
                f"another step, which ends the run, as its at_end is {source.at_end}; raise max_epochs, lower its "
                "weight, or set at_end to repeat"
            )

    @_one_at_a_time
    def raises_at(self, step: int) -> bool:
        """Return whether the run is to end with an error before this step."""
        source = self._ended_by(step)
        return source is not None and source.at_end == "raise"

    @_one_at_a_time
    def state(self, step: int) -> dict[str, object]:
        """Return the state at a step."""
        scan = self._scan_of(step)
        if step > scan.stop_step:
            self.check(step)
        return budget_to_json(self.plan, self.budget, scan.at(step), self._since)

    def resumed(self, state: Mapping[str, object], new_segment: bool) -> tuple["BudgetBatches", int]:
        """Return the batches of a state's run. Goes through no lengths."""
        found, told = budget_from_json(state)
        found = found.renamed(self._context.other_ids())
        differing = [
            f"token_budget.{name} was {getattr(told, name)} and is {getattr(self.budget, name)}"
            for name in ("tokens", "micro_batches")
            if getattr(told, name) != getattr(self.budget, name)
        ]
        if differing and not new_segment:
            raise ConfigError(other_settings(told.now.step, "; ".join(differing)))
        plan = rebase(
            self.plan, found, new_segment=new_segment, any_window=self._context.any_window, step_told=told.now.step
        )
        is_changed = bool(differing) or not same_samples(plan.segments, found.segments)
        batches = BudgetBatches(
            plan,
            self.budget,
            self._context,
            now=told.now,
            since=told.now if is_changed else told.since,
        )
        return batches, told.now.step

    def _micro_batches(self, step: int, at_most: int, which: range) -> list[list[MicroBatch]]:
        """Return those of the micro-batches of some steps that have some numbers."""
        scan = self._scan_of(step)
        self.check(step)
        first = step - scan.mark.step
        stop = bisect_right(scan.starts, scan.starts[first] + _DRAWS_AT_ONCE)
        starts = scan.starts[first : min(first + 1 + at_most, max(stop, first + 2))]
        origin = starts[0]
        draws = self._draws(origin, starts[-1])
        lengths = self._context.lengths(draws.sample_ids)
        return [self._of_step(draws, lengths, a - origin, b - origin, which) for a, b in pairwise(starts)]

    def _of_step(self, draws: MicroBatch, lengths: Int64Array, start: int, stop: int, which: range) -> list[MicroBatch]:
        """Return those of the micro-batches of a step that have some numbers; it takes some of the draws."""
        full = full_batches(lengths[start:stop].tolist(), self.budget.tokens)
        edges = [start, *(start + end for end in full), stop]
        found = len(edges) - 1
        return [_part(draws, edges[j % found], edges[j % found + 1], is_padding=j >= found) for j in which]

    def _draws(self, start: int, stop: int) -> MicroBatch:
        """Return what draws take, as one micro-batch of them all."""
        parts = []
        slot = np.zeros(1, np.int64)
        while start < stop:
            size = min(stop - start, self.plan.stretch(start))
            segment, draws = self.plan.segment(start), self.plan.draws(start, size, slot)
            parts.append((numbers_in_dataset(segment, draws, self._context.first_id), draws.epochs, draws.sources))
            start += size
        ids = np.concatenate([ids.reshape(-1) for ids, _, _ in parts])
        sources = [sources.reshape(-1) for _, _, sources in parts if sources is not None]
        return MicroBatch(
            sample_ids=ids,
            epochs=np.concatenate([epochs.reshape(-1) for _, epochs, _ in parts]),
            sources=np.concatenate(sources) if sources else None,
            is_padding=np.zeros(ids.shape, np.bool_),
            seq_len=None,
        )

    def _lengths(self, start: int, stop: int) -> Int64Array:
        if start >= stop:
            return np.empty(0, np.int64)
        return self._context.lengths(self._draws(start, stop).sample_ids)

    def _ended_by(self, step: int) -> Source | None:
        """Return the source that ends the run before a step."""
        if self.plan.end is None:
            return None
        scan = self._scan_of(step)
        return self.plan.ended_by if scan.ends_run and step >= scan.stop_step else None

    def _has_no_end(self, epoch: int) -> bool:
        return self.plan.epoch_range(epoch)[1] >= ENDLESS

    def _scan_of(self, step: int) -> EpochScan:
        """Return the epoch that a step lies in; where the run ends before it, the last one."""
        check_int("step", step, at_least=0)
        scan = self._scan(self._marks[self._known(lambda mark: mark.step, step, f"step {step}")])
        while not scan.reaches(step) and not scan.ends_run:
            scan = self._scan(self._after(scan))
        return scan

    def _known(self, place: Callable[[Mark], int], wanted: int, what: str) -> int:
        """Return the number of the last mark that is not past what is looked for."""
        number = bisect_right(self._marks, wanted, key=place) - 1
        if number < 0:
            raise ConfigError(
                f"{what} lies before step {self._since.step}, at which the run's settings changed, and where steps "
                "before that begin is no longer known; use a state that was taken before the change"
            )
        return number

    def _after(self, scan: EpochScan) -> Mark:
        """Return where the epoch after one begins that is gone through, and keep it."""
        mark = self._begin_after(scan)
        self._left_out[scan.mark.epoch] = mark.position - scan.starts[-1]
        number = bisect_right(self._marks, mark.step, key=lambda known: known.step)
        if self._marks[number - 1].step < mark.step:
            self._marks.insert(number, mark)
        return mark

    def _left_out_before(self, epoch: int) -> int:
        for number in range(self._since.epoch, epoch):
            if number not in self._left_out:
                scan = self._scan(self._marks[self._known(lambda mark: mark.epoch, number, f"epoch {number}")])
                scan.finish()
                self._after(scan)
        return sum(self._left_out[number] for number in range(self._since.epoch, epoch))

    def _begin_after(self, scan: EpochScan) -> Mark:
        """Find where the epoch after one begins that is gone through."""
        last = scan.at(scan.stop_step)
        is_mixture = self.plan.segment(last.position).is_mixture
        epoch = self.plan.epoch_of(last.position) if is_mixture else last.epoch + 1
        position = last.position if is_mixture else self.plan.epoch_range(epoch)[0]
        if epoch == last.epoch:
            return last
        return Mark(step=last.step, position=position, epoch=epoch, epoch_step=last.step, epoch_position=position)

    def _scan(self, mark: Mark) -> EpochScan:
        """Return the steps from a mark on; those of the last few are kept."""
        scan = self._scans.pop(mark, None) or self._new_scan(mark)
        self._scans[mark] = scan
        if len(self._scans) > _EPOCHS_KEPT:
            del self._scans[next(iter(self._scans))]
        return scan

    def _new_scan(self, mark: Mark) -> EpochScan:
        segment = self.plan.segment(mark.position)
        stop = self.plan.epoch_range(mark.epoch)[1]
        limit = stop
        if segment.is_mixture:
            limit = ENDLESS if self.plan.end is None else self.plan.end
        bounds = Bounds(stop=stop, limit=limit, pads=segment.last_batch == "pad", is_mixture=segment.is_mixture)
        return EpochScan(mark, bounds, self.budget, self._lengths)


def _part(draws: MicroBatch, start: int, stop: int, *, is_padding: bool) -> MicroBatch:
    return MicroBatch(
        sample_ids=draws.sample_ids[start:stop],
        epochs=draws.epochs[start:stop],
        sources=None if draws.sources is None else draws.sources[start:stop],
        is_padding=np.full(stop - start, is_padding),
        seq_len=None,
    )
