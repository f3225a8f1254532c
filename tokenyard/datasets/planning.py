"""From settings to the plan of a run: the segments, with every parameter resolved."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import accumulate
from math import lcm

from tokenyard.config import SegmentConfig, TrainConfig
from tokenyard.corpus import Corpus
from tokenyard.datasets.batches import Batches, FixedBatches
from tokenyard.datasets.budget import BudgetBatches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order import Order, resolve
from tokenyard.datasets.order.budget import Budget
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import Segment, Source
from tokenyard.datasets.rank_context import RankContext
from tokenyard.datasets.row_lengths import DatasetRowLengths
from tokenyard.datasets.samples import label_shift
from tokenyard.errors import ConfigError


def corpus_id(corpus: Corpus) -> str:
    """Return what a state knows a corpus by: its content digest, or its structural id where it has none."""
    return corpus.digest or corpus.structural_id


def make_batches(settings: TrainConfig, dataset: TokenDataset, rank: int, world_size: int) -> Batches:
    """Return the micro-batches of a rank, as settings describe them. Raises ConfigError as `make_plan` does."""
    numbers = {corpus_id(corpus): k for k, corpus in enumerate(dataset.corpora)}

    @cache
    def first_ids(seq_len: int | None) -> list[int]:
        sized = dataset if seq_len is None else dataset.with_seq_len(seq_len)
        return list(accumulate((sized.num_samples_of(k) for k in range(len(dataset.corpora))), initial=0))

    def first_id(source: str, seq_len: int | None) -> int:
        if source not in numbers:
            raise ConfigError(
                f"data.sources: {source} is not among them, and steps of the run's past that took it can't be made "
                "again without it; put it back, or go on with later steps"
            )
        return first_ids(seq_len)[numbers[source]]

    def other_ids() -> dict[str, str]:
        return {corpus.structural_id: corpus_id(corpus) for corpus in dataset.corpora}

    plan = make_plan(settings, dataset)
    row_lengths = DatasetRowLengths(dataset) if dataset.mode == "rows" else None
    context = RankContext(
        rank=rank,
        world_size=world_size,
        first_id=first_id,
        row_lengths=row_lengths,
        any_window=settings.order.window_blocks == "auto",
        other_ids=other_ids,
    )
    budget = settings.order.token_budget
    if budget is not None and row_lengths is not None:
        row_lengths.check_at_most(budget.tokens)
        told = Budget(tokens=budget.tokens, micro_batches=budget.micro_batches)
        return BudgetBatches(plan, told, context)
    return FixedBatches(plan, context, micro_batch_size=settings.loader.micro_batch_size)


def make_plan(settings: TrainConfig, dataset: TokenDataset) -> Plan:
    """Return the plan of the whole run that settings describe.

    Raises:
        ConfigError: names the key that doesn't fit the corpus, or another key.
    """
    plan = Plan([_first_segment(settings, dataset)])
    for number, change in enumerate(settings.order.segments):
        try:
            plan = plan.extended(_changed(plan.segments[-1], change, settings, dataset))
        except ConfigError as e:
            raise ConfigError(f"order.segments.{number}: {e}") from None
    return plan


def sources_of(
    settings: TrainConfig, dataset: TokenDataset, seq_len: int | None, weights: Mapping[str, float] | None = None
) -> tuple[Source, ...]:
    """Return what is drawn from; of a mixture, those that `weights` names, or all with their own weights.

    Weights in tokens become weights in samples by the mean tokens of a sample.
    """
    given = settings.data.sources
    sizes = _sizes(settings, dataset, seq_len)
    if given is None:
        _check_samples(settings, dataset, 0, sizes[0], seq_len)
        return (Source(id=corpus_id(dataset.corpora[0]), num_samples=sizes[0]),)
    if weights is not None and (unknown := [name for name in weights if name not in dataset.source_names]):
        raise ConfigError(
            f"weights: there is no source {unknown[0]!r} in data.sources; there are {', '.join(dataset.source_names)}"
        )
    found = []
    for number, (source, corpus) in enumerate(zip(given, dataset.corpora, strict=True)):
        weight = source.weight if weights is None else weights.get(source.name)
        if weight is None:
            continue
        _check_samples(settings, dataset, number, sizes[number], seq_len)
        if settings.data.weights_in == "tokens" and dataset.mode == "rows":
            weight /= max(1.0, corpus.num_tokens / len(corpus))
        found.append(
            Source(
                id=corpus_id(corpus),
                num_samples=sizes[number],
                number=number,
                weight=weight,
                at_end=source.at_end,
                max_epochs=source.max_epochs,
                name=source.name,
            )
        )
    return tuple(found)


def _sizes(settings: TrainConfig, dataset: TokenDataset, seq_len: int | None) -> list[int]:
    """Return the samples of each source at a sequence length, in whole units where there are units."""
    numbers = range(len(dataset.corpora))
    unit = settings.order.unit_tokens
    if unit is None or seq_len is None:
        sized = dataset if seq_len is None else dataset.with_seq_len(seq_len)
        return [sized.num_samples_of(k) for k in numbers]
    units = dataset.with_seq_len(unit)
    return [units.num_samples_of(k) * (unit // seq_len) for k in numbers]


def _check_samples(settings: TrainConfig, dataset: TokenDataset, number: int, size: int, seq_len: int | None) -> None:
    """Raise ConfigError where a source of `size` samples has none, with the numbers that say why."""
    if size:
        return
    corpus = dataset.corpora[number]
    is_mixture = settings.data.sources is not None
    where = f"data.sources: {dataset.source_names[number]!r}" if is_mixture else f"data.path: {corpus.path}"
    leave_out = ", or leave the source out" if is_mixture else ""
    if seq_len is None:
        raise ConfigError(f"{where} holds no row, and so no sample of mode rows; name a corpus with rows{leave_out}")
    unit = settings.order.unit_tokens
    what, name, length = ("unit", "order.unit_tokens", unit) if unit is not None else ("sample", "seq_len", seq_len)
    past = label_shift(dataset.labels)
    label = ", the last label among them" if past else ""
    most = corpus.num_tokens - past
    lower = f"lower {name} to {most} or less, or " if most > 0 else ""
    raise ConfigError(
        f"{where} holds {corpus.num_tokens} tokens, and a {what} of {name} {length} takes {length + past}{label}, so "
        f"there is no sample; {lower}name a larger corpus{leave_out}"
    )


def _samples_per_unit(settings: TrainConfig, seq_len: int | None) -> int:
    unit = settings.order.unit_tokens
    if unit is None:
        return 1
    if seq_len is None:
        raise ConfigError("order.unit_tokens is about data.sample.mode concat, where samples are cut out of units")
    if unit % seq_len:
        raise ConfigError(
            f"order.unit_tokens: expected a multiple of seq_len {seq_len}, found {unit}; "
            f"{lcm(unit, seq_len)} is one of both"
        )
    return unit // seq_len


def _first_segment(settings: TrainConfig, dataset: TokenDataset) -> Segment:
    order = settings.order
    is_mixture = settings.data.sources is not None
    if order.epoch_samples is not None and not is_mixture:
        raise ConfigError(
            "order.epoch_samples is the epoch of data.sources; with data.path an epoch is all samples of the corpus"
        )
    seq_len = dataset.seq_len if dataset.mode == "concat" else None
    sources = sources_of(settings, dataset, seq_len)
    # With a token budget, a step of the plan is one draw, and the budget says how many make a step of the run.
    batch_size = order.global_batch_size or 1
    return Segment(
        order=_resolved(settings, sources, batch_size, is_mixture),
        global_batch_size=batch_size,
        last_batch=order.last_batch,
        sources=sources,
        is_mixture=is_mixture,
        epoch_samples=order.epoch_samples,
        seq_len=seq_len,
        samples_per_unit=_samples_per_unit(settings, seq_len),
        group_steps=1 if order.length_grouping is None else order.length_grouping.steps,
    )


def _changed(before: Segment, change: SegmentConfig, settings: TrainConfig, dataset: TokenDataset) -> Segment:
    """Return the segment that a planned change begins: what it doesn't name stays."""
    seq_len, sources = before.seq_len, before.sources
    if change.seq_len is not None:
        if seq_len is None:
            raise ConfigError("seq_len: rows are samples as they are; only windows of mode concat change their length")
        seq_len = change.seq_len
    if change.weights is not None and not before.is_mixture:
        raise ConfigError("weights: they are those of data.sources, but there is data.path")
    samples_per_unit = _samples_per_unit(settings, seq_len)
    if change.weights is not None:
        sources = sources_of(settings, dataset, seq_len, change.weights)
    elif seq_len != before.seq_len:
        sizes = _sizes(settings, dataset, seq_len)
        for source in sources:
            _check_samples(settings, dataset, source.number, sizes[source.number], seq_len)
        sources = tuple(replace(source, num_samples=sizes[source.number]) for source in sources)
    epoch_samples = before.epoch_samples
    if epoch_samples is not None and seq_len != before.seq_len:
        assert seq_len is not None
        assert before.seq_len is not None
        epoch_samples = epoch_samples * before.seq_len // seq_len
    batch_size = change.global_batch_size or before.global_batch_size
    order = _resolved(settings, sources, batch_size, before.is_mixture)
    return replace(
        before,
        first_step=change.from_step,
        order=replace(order, window_blocks=before.order.window_blocks),
        global_batch_size=batch_size,
        sources=sources,
        epoch_samples=epoch_samples,
        seq_len=seq_len,
        samples_per_unit=samples_per_unit,
    )


def _resolved(settings: TrainConfig, sources: tuple[Source, ...], global_batch_size: int, is_mixture: bool) -> Order:
    """Return the order; lanes that are chosen leave each source an order block in each lane."""
    order = settings.order
    smallest = min(source.num_samples for source in sources)
    return resolve(
        num_samples=smallest,
        global_batch_size=global_batch_size,
        seed=order.seed,
        shuffle=order.shuffle,
        block_samples=order.block_samples,
        window_blocks=None if order.window_blocks == "auto" else order.window_blocks,
        lanes=None if order.lanes == "auto" else order.lanes,
        is_mixture=is_mixture,
    )
