"""The micro-batches of a rank in turn, epoch after epoch, and where it stands. Needs no torch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from tokenyard.datasets.batches import Batches, MicroBatch, MicroBatchIds, steps_at_once
from tokenyard.datasets.order.segment import ENDLESS
from tokenyard.datasets.order.state import checked_state
from tokenyard.errors import ConfigError

#: Samples of a rank that are placed at a time.
_SAMPLES_AT_ONCE = 4096
#: In the state of an iteration: the step before which it ends.
_STOP = "stop_step"


class Request(NamedTuple):
    """A micro-batch, and where the run stands once it was given out. A tuple, since so many are made.

    Attributes:
        micro_batch: which samples.
        step: the step of the run that it is part of.
        number: which of its step's micro-batches it is, from 0.
        step_done: whether it is the last of its step.
        with_mask: whether its batch says which samples are padding.
    """

    micro_batch: MicroBatch
    step: int
    number: int
    step_done: bool
    with_mask: bool

    def note(self, run: "EpochRun") -> str:
        """Return what is noted at an error that loading it meets."""
        return f"while loading micro-batch {self.number} of step {self.step}, in epoch {run.epoch}"


@dataclass(frozen=True, kw_only=True)
class EpochRun:
    """One time through an epoch, or through what was left of it.

    Attributes:
        epoch: the epoch.
        first_step: the step it begins with.
        stop_step: the step before which it ends.
        number: which of the sampler's iterations it is.
        batches: what it takes, also when the sampler has gone on with others since.
    """

    epoch: int
    first_step: int
    stop_step: int
    number: int
    batches: Batches


class RankSampler:
    """The micro-batches of one rank, as a batch sampler of torch's `DataLoader`.

    All ranks have equally many. Each `iter()` takes the next epoch, from 0 on; `set_epoch` says which one comes next,
    and `load_state_dict` where to go on. With a `DataLoader` that fetches ahead, `state_dict()` knows what was fetched,
    not what was trained on: say `state_dict(step=...)`, or use torchdata's `StatefulDataLoader`, which keeps the two
    apart, or `TokenLoader`, which counts what it gave out.

    Args:
        batches: what there is to take.
    """

    def __init__(self, batches: Batches) -> None:
        self.batches = batches
        self._next_step = 0
        self._step, self._past = 0, 0
        self._number = 0

    def __repr__(self) -> str:
        return f"RankSampler({self.told()})"

    def told(self) -> str:
        """Return where it stands, in words: the rank, the global batch, the step. Goes through no lengths."""
        budget = self.batches.budget
        if budget is None:
            size = f"global batches of {self.batches.plan.segment(self._step).global_batch_size}"
        else:
            size = f"steps of {budget.micro_batches} micro-batches of up to {budget.tokens} tokens"
        return f"rank {self.batches.rank} of {self.batches.world_size}, {size}, step {self._step}"

    def __len__(self) -> int:
        """Return the micro-batches of the epoch in which the next step lies, the same on all ranks.

        Where an epoch is gone on with in its middle, all of it counts. Raises TypeError where it has no end.
        """
        first, stop = self.batches.epoch_range(self.epoch)
        if stop >= ENDLESS:
            raise TypeError("an epoch of this mixture has no end, and so no length; set order.epoch_samples")
        return self.batches.num_micro_batches(first, stop)

    @property
    def step(self) -> int:
        """Where in the run the next step lies, counted from 0 over all epochs.

        It grows by one with each step that was given out. The iteration after one that was left early, and `set_epoch`,
        jump to the start of an epoch, whether or not the steps before it were run.
        """
        return self._step

    @property
    def epoch(self) -> int:
        """The epoch in which the next step lies."""
        return self.batches.epoch_of(self._step)

    @property
    def drop_last(self) -> NoReturn:
        """Refuse: nobody asks a batch sampler for this but to make another of it that deals its batches to ranks."""
        raise ConfigError(
            "drop_last: RankSampler gives each rank its own batches already, and something is about to deal these to "
            "ranks once more, by which samples would be lost; with Lightning, set "
            "Trainer(use_distributed_sampler=False); with Accelerate and Hugging Face's Trainer, don't pass the "
            "DataLoader to accelerator.prepare; or use build_dataloader, whose loader they leave as it is"
        )

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter()` begin this epoch; where it is to go on in the middle of this one, it still does.

        Raises:
            ConfigError: it is no number of an epoch, or none follows one without end.
        """
        if type(epoch) is not int or epoch < 0:
            raise ConfigError(f"epoch: expected a whole number from 0 on, found {epoch!r}; pass a plain int")
        if self.batches.epoch_of(self._next_step) != epoch:
            first = self.batches.epoch_range(epoch)[0]
            if first >= ENDLESS:
                self.batches.check(first)
            self._next_step = first
        self._step, self._past = self._next_step, 0

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return where the run stands, as JSON values; at the last step that is done, or at `step` steps of the run.

        Where micro-batches of a further step were given out already, `micro_batches_past` counts them: they come again.
        """
        if step is None:
            return {**self.batches.state(self._step), "micro_batches_past": self._past}
        return {**self.batches.state(step), "micro_batches_past": 0}

    def load_state_dict(self, state: Mapping[str, Any], *, new_segment: bool = False) -> None:
        """Let the next `iter()` go on where a state was taken.

        Args:
            state: what `state_dict` gave, on any rank, at any number of ranks, workers or micro-batches.
            new_segment: whether settings that differ from the state's take effect from here on, instead of an error.

        Raises:
            ConfigError: the state belongs to another run; the message names what differs.
        """
        self.batches, step = self.batches.resumed(checked_state(state), new_segment)
        self._number += 1
        self._next_step = self._step = step
        self._past = 0

    def begin(self) -> EpochRun:
        """Take the epoch whose turn it is; the next call takes the one after it.

        Raises:
            ConfigError: a source has ended the run.
        """
        first = self._next_step
        self.batches.check(first)
        epoch = self.batches.epoch_of(first)
        stop = self.batches.epoch_range(epoch)[1]
        self._number += 1
        self._next_step, self._step, self._past = stop, first, 0
        return EpochRun(epoch=epoch, first_step=first, stop_step=stop, number=self._number, batches=self.batches)

    def requests(self, run: EpochRun) -> Iterator[Request]:
        """Yield the micro-batches of an epoch, for `given_out` to be called with.

        Raises:
            ConfigError: after the last one, where a source with at_end raise has ended the run.
        """
        step, at_once = run.first_step, 1
        while step < run.stop_step:
            steps = run.batches.of_steps(step, min(at_once, run.stop_step - step))
            at_once = steps_at_once(steps[0], _SAMPLES_AT_ONCE)
            for micro_batches in steps:
                last = len(micro_batches) - 1
                for i, micro_batch in enumerate(micro_batches):
                    yield Request(micro_batch, step, i, i == last, self.batches.pads)
                step += 1
        if run.batches.raises_at(step):
            run.batches.check(step)

    def given_out(self, run: EpochRun, request: Request) -> None:
        """Count a micro-batch that the training loop now has. An iteration that another has followed counts no more."""
        if run.number == self._number:
            self._step, self._past = (request.step + 1, 0) if request.step_done else (request.step, request.number + 1)

    def __iter__(self) -> "SampleIds":
        """Begin the next epoch, with its first micro-batch: the sample ids of each, as `MicroBatchIds`."""
        return SampleIds(self)


class SampleIds(Iterator[list[int]]):
    """The sample ids of an epoch's micro-batches; it can tell and take a state of its own, as torchdata asks.

    The epoch begins when the first ones are asked for, and not before: a DataLoader with workers makes two iterators of
    its sampler, and takes from the second.
    """

    def __init__(self, sampler: RankSampler) -> None:
        self._sampler = sampler
        self._begun: tuple[EpochRun, Iterator[Request]] | None = None

    def __next__(self) -> list[int]:
        if self._begun is None:
            run = self._sampler.begin()
            self._begun = run, self._sampler.requests(run)
        run, requests = self._begun
        request = next(requests)
        self._sampler.given_out(run, request)
        return MicroBatchIds(request.micro_batch, request.with_mask)

    def state_dict(self) -> dict[str, Any]:
        """Return where this iteration stands: as the sampler says it, and the step before which the iteration ends."""
        return {**self._sampler.state_dict(), _STOP: self._begun[0].stop_step if self._begun else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken; where that was the end of its epoch, there is nothing left."""
        rest = {name: value for name, value in checked_state(state).items() if name != _STOP}
        stop = state.get(_STOP)
        if stop is not None and (type(stop) is not int or stop < 0):
            raise ConfigError(f"state: {_STOP}: expected a whole number from 0 on, or None, found {stop!r}")
        self._sampler.load_state_dict(rest)
        self._begun = None
        if stop is not None and self._sampler.step >= stop:
            step = self._sampler.step
            sampler = self._sampler
            run = EpochRun(epoch=sampler.epoch, first_step=step, stop_step=step, number=-1, batches=sampler.batches)
            self._begun = run, iter(())
