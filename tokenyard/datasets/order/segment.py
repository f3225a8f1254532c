"""What stays the same for some steps of a run: the order, the sizes of its batches, and what is drawn from.

A run is a list of segments. One begins where weights, sources, the global batch or the sequence length change; what
the segments before it have taken in the current epoch is not taken again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Literal, get_args

from tokenyard.datasets.order.intervals import Intervals
from tokenyard.datasets.order.order import Order
from tokenyard.datasets.order.partition import LastBatch, num_steps
from tokenyard.datasets.order.schedule import quotas
from tokenyard.errors import ConfigError
from tokenyard.permutation.checks import check_choice, check_int

AtEnd = Literal["repeat", "stop", "raise"]

#: Steps of an epoch that has no end.
ENDLESS = 1 << 61


@dataclass(frozen=True, kw_only=True)
class Source:
    """A corpus that is drawn from.

    Attributes:
        id: the corpus's content digest, or its structural id.
        num_samples: samples of an epoch.
        number: which of the run's sources it is, counted by first use; it is part of the keys of its order.
        weight: its share of the draws, as samples, beside the weights of the other sources. Any unit.
        at_end: what happens after `max_epochs` epochs of it: `repeat` goes on for ever, `stop` ends the run before the
            step that would need more, `raise` is an error there.
        max_epochs: how often it may be gone through, where `at_end` is not `repeat`.
        name: what messages call it.
    """

    id: str
    num_samples: int
    number: int = 0
    weight: float = 1.0
    at_end: AtEnd = "repeat"
    max_epochs: int = 1
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        check_int("num_samples", self.num_samples, at_least=0)
        check_int("number", self.number, at_least=0)
        check_int("max_epochs", self.max_epochs, at_least=1)
        check_choice("at_end", self.at_end, get_args(AtEnd))

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"source {self.name!r}" if self.name else f"source {self.number} ({self.id})"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Steps of a run that share all their parameters.

    Attributes:
        first_step: the step of the run with which it begins.
        order: the resolved order.
        global_batch_size: slots of a step.
        last_batch: what becomes of samples that fill no global batch at the end of an epoch.
        sources: what is drawn from, by ascending number; one, unless it is a mixture.
        is_mixture: whether draws follow a schedule, each source with epochs of its own. A mixture may have one source.
        epoch_samples: draws in an epoch of a mixture; None for an epoch without end. None where it is no mixture.
        seq_len: tokens of a sample, where samples are windows of the token stream; None for rows.
        samples_per_unit: neighbouring samples that the order keeps together, so that `seq_len` may change within an
            epoch; 1 otherwise.
        group_steps: steps whose samples are shared out by length among their global batches; 1 where they are not.

    Raises:
        ConfigError: a parameter is out of its range, or an epoch would have no step.
    """

    first_step: int = 0
    order: Order
    global_batch_size: int
    last_batch: LastBatch = "drop"
    sources: tuple[Source, ...]
    is_mixture: bool = False
    epoch_samples: int | None = None
    seq_len: int | None = None
    samples_per_unit: int = 1
    group_steps: int = 1

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        check_int("first_step", self.first_step, at_least=0)
        check_int("global_batch_size", self.global_batch_size, at_least=1)
        check_int("samples_per_unit", self.samples_per_unit, at_least=1)
        check_int("group_steps", self.group_steps, at_least=1)
        check_choice("last_batch", self.last_batch, get_args(LastBatch))
        if self.seq_len is not None:
            check_int("seq_len", self.seq_len, at_least=1)
        if self.global_batch_size % self.order.lanes:
            raise ConfigError(
                f"lanes: expected a divisor of global_batch_size {self.global_batch_size}, found {self.order.lanes}; "
                "leave lanes out to have them chosen"
            )
        numbers = [source.number for source in self.sources]
        if not numbers or numbers != sorted(set(numbers)):
            raise ConfigError(f"sources: expected one or more by ascending number, found the numbers {numbers}")
        if self.is_mixture:
            self._check_mixture()
        elif len(self.sources) > 1 or self.epoch_samples is not None:
            raise ConfigError("sources: only a mixture has several sources, or epoch_samples")
        if not self.epoch_steps:
            size = self.epoch_size
            shorter = "" if self.seq_len is None else ", or lower seq_len"
            way_out = f"lower global_batch_size to {size} or less{shorter}, or choose last_batch pad"
            if not size:
                way_out = f"name a larger corpus{shorter}"
            if self.is_mixture:
                way_out = f"raise order.epoch_samples to {self.global_batch_size} or more, or lower global_batch_size"
            raise ConfigError(
                f"global_batch_size: there are {size} samples in an epoch, which fill no global batch of "
                f"{self.global_batch_size}, so an epoch would have no step; {way_out}"
            )

    def _check_mixture(self) -> None:
        if self.epoch_samples is not None:
            check_int("epoch_samples", self.epoch_samples, at_least=1)
        if self.last_batch != "drop":
            raise ConfigError(
                "last_batch: expected drop, as a mixture goes on from epoch to epoch and has no last batch, found "
                f"{self.last_batch!r}"
            )
        quotas([source.weight for source in self.sources], [source.label for source in self.sources])
        for source in self.sources:
            if source.num_samples < self.order.lanes:
                raise ConfigError(
                    f"{source.label}: it has {source.num_samples} samples, fewer than the "
                    f"{self.order.lanes} lanes; set order.lanes to 1, or leave the source out"
                )

    @property
    def lane_batch(self) -> int:
        """Slots of a step in one lane."""
        return self.global_batch_size // self.order.lanes

    @property
    def epoch_size(self) -> int | None:
        """Samples of a whole epoch; None for one without end."""
        return self.epoch_samples if self.is_mixture else self.sources[0].num_samples

    @property
    def epoch_steps(self) -> int:
        """Steps of a whole epoch."""
        return self.steps_of(self.epoch_size)

    def steps_of(self, size: int | None) -> int:
        """Return the steps that so many samples of an epoch make."""
        return ENDLESS if size is None else num_steps(size, self.global_batch_size, self.last_batch)


@dataclass(frozen=True)
class Stream:
    """What a source has still to give: unfinished epochs, then whole ones.

    Attributes:
        parts: (epoch, positions) of the unfinished ones, in their order.
        next_epoch: the first whole one.
    """

    parts: tuple[tuple[int, Intervals], ...] = ()
    next_epoch: int = 0


@dataclass(frozen=True, kw_only=True)
class Left:
    """What segments leave for the one after them.

    Attributes:
        epoch: the epoch of the run in which the next step lies.
        size: samples that are left of it; None where it is whole.
        streams: what each source has to give, by its number; all of it where a number is missing.
    """

    epoch: int = 0
    size: int | None = None
    streams: Mapping[int, Stream] = field(default_factory=dict)

    def scaled(self, old: Segment, new: Segment) -> "Left":
        """Return it counted in samples of another sequence length, where units keep samples of both together.

        Raises:
            ConfigError: the length changes within an epoch, and no unit holds whole samples of both.
        """
        a, b = old.seq_len, new.seq_len
        if a == b:
            return self
        if a is None or b is None:
            raise ConfigError("seq_len: only windows of mode concat change their length during a run")
        if old.samples_per_unit * a != new.samples_per_unit * b:
            if self.size is None and not any(stream.parts for stream in self.streams.values()):
                return self
            unit = a * b // gcd(a, b)
            # The epochs of a mixture's sources go by apart from it, so that no step is the first of all.
            way_out = "" if new.is_mixture else ", or change it at the first step of an epoch"
            raise ConfigError(
                f"seq_len: it changes from {a} to {b} within epoch {self.epoch}, at step {new.first_step}, where "
                "samples of one length overlap with those of the other; set order.unit_tokens to a multiple of both, "
                f"such as {unit}, from the start of the run{way_out}"
            )
        streams = {
            number: Stream(tuple((e, part.scaled(a, b)) for e, part in stream.parts), stream.next_epoch)
            for number, stream in self.streams.items()
        }
        return Left(epoch=self.epoch, size=None if self.size is None else self.size * a // b, streams=streams)
