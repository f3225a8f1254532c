"""The preflight as a whole: everything that can be looked at, in the order of the page."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenyard.config import TrainConfig, load_config
from tokenyard.config.loading import Source
from tokenyard.converters.engines import TokenizerSpec, load_tokenizer
from tokenyard.converters.job import OnProgress
from tokenyard.corpus import Corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.opening import open_dataset
from tokenyard.errors import ConfigError, MissingDependencyError, NotACorpusError, TokenyardError
from tokenyard.preflight.cache import cache_line
from tokenyard.preflight.contents import look_into
from tokenyard.preflight.epochs import epoch_lines
from tokenyard.preflight.first_batch import batch_line, first_batch, num_bytes
from tokenyard.preflight.limits import limit_lines
from tokenyard.preflight.marks import marks_line, marks_of
from tokenyard.preflight.memory import memory_line
from tokenyard.preflight.model import ModelFacts, model_facts
from tokenyard.preflight.partition import partition_line
from tokenyard.preflight.planned import Planned, plan_run, ranks_line, ranks_of
from tokenyard.preflight.report import Line, PreflightReport, failed, passed
from tokenyard.preflight.resume import resume_line
from tokenyard.preflight.shards import shards_line
from tokenyard.preflight.steps import steps_line
from tokenyard.preflight.tokenizer import tokenizer_line, with_marks
from tokenyard.preflight.vocabulary import vocabulary_line

#: What the caller has to put right, and no run can be judged by.
_WRONG_USE = (MissingDependencyError, NotACorpusError)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What the caller says of the run, beside its settings."""

    ranks: int | None
    ranks_per_node: int | None
    steps: int | None
    facts: ModelFacts
    tokenizer: TokenizerSpec | None
    state: Mapping[str, Any] | None
    full: bool
    on_progress: OnProgress | None


@dataclass
class _Page:
    """What was found so far."""

    lines: list[Line] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)

    def add(self, check: str, look: Callable[[], Iterable[Line]], source: str | None = None) -> bool:
        """Add what a check finds. An error of ours that it meets would stop the run too, and so is a line that fails.

        Returns whether it met none.
        """
        try:
            self.lines += look()
        except _WRONG_USE:
            raise
        except TokenyardError as e:
            self.lines.append(failed(check, str(e), source=source))
            return False
        return True


def preflight(
    config: Source,
    *,
    ranks: int | None = None,
    ranks_per_node: int | None = None,
    steps: int | None = None,
    model: str | os.PathLike[str] | None = None,
    vocab_size: int | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    state: Mapping[str, Any] | None = None,
    full: bool = False,
    on_progress: OnProgress | None = None,
) -> PreflightReport:
    """Look at a training run before it is started. What is wrong with the run is reported, not raised.

    Of large corpora some is looked at, the same each time, and each line says how much.

    Args:
        config: settings of the run, as ``build_dataloader`` takes them.
        ranks: data-parallel ranks; WORLD_SIZE, or what the sizes of batches allow, when not given.
        ranks_per_node: how many of them share a machine; LOCAL_WORLD_SIZE, or at most 8, when not given.
        steps: optimizer steps that are planned; an epoch, or 10,000 where it has no end, when not given.
        model: a config.json of transformers, or its folder, to compare vocabulary and marks with.
        vocab_size: in its place, how many ids the model has.
        tokenizer: a tokenizer.json, a folder or a name, to try on each corpus.
        state: what ``state_dict`` of a loader gave, to try to go on from.
        full: verify every byte, and look at every row.
        on_progress: called with a Progress now and then, with ``full``.

    Raises:
        ConfigError: settings are unknown or of a wrong value, or arguments don't fit together.
        NotACorpusError: there is no corpus at a path.
        UnknownTokenizerError: there is no such tokenizer.
        MissingDependencyError: says what to install.
    """
    begun = time.monotonic()
    for name, number in (("ranks", ranks), ("ranks_per_node", ranks_per_node), ("steps", steps)):
        if number is not None and number < 1:
            raise ConfigError(f"{name}: expected a whole number from 1 on, found {number}")
    settings = load_config(config)
    asked = _Asked(
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        steps=steps,
        facts=model_facts(model, vocab_size),
        tokenizer=None if tokenizer is None else load_tokenizer(tokenizer),
        state=state,
        full=full,
        on_progress=on_progress,
    )
    page = _Page()
    opened: list[TokenDataset] = []
    planned: list[Planned] = []

    def open_all() -> Iterator[Line]:
        opened.append(open_dataset(settings))
        yield from _opened_lines(opened[0])

    if page.add("corpus", open_all):
        for _, corpus, source in _sources(opened[0]):
            _look_at_corpus(page, settings, corpus, source, asked)
        if tokenizer is None:
            page.not_checked.append("the tokenizer: none is named (--tokenizer)")
        _look_at_run(page, settings, opened[0], asked, planned)
    else:
        page.not_checked.append("everything else: the corpora can't be opened")
    return PreflightReport(
        lines=tuple(page.lines),
        not_checked=tuple(page.not_checked),
        ranks=planned[0].ranks if planned else None,
        steps=planned[0].steps if planned else None,
        seconds=time.monotonic() - begun,
    )


def _opened_lines(dataset: TokenDataset) -> Iterator[Line]:
    for name, corpus, source in _sources(dataset):
        number = dataset.source_names.index(name)
        samples = dataset.num_samples_of(number)
        told = f"{corpus.format}, {len(corpus):,} rows, {corpus.num_tokens:,} tokens, {samples:,} samples"
        yield passed("corpus", f"{corpus.path}: {told}", source=source)


def _look_at_corpus(page: _Page, settings: TrainConfig, corpus: Corpus, source: str | None, asked: _Asked) -> None:
    spec = None if asked.tokenizer is None else with_marks(asked.tokenizer, corpus.schema)
    bos, eos = (None, None) if spec is None else (spec.bos_id, spec.eos_id)
    marks = marks_of(corpus, asked.facts, bos=bos, eos=eos)
    if (told := settings.data.sample.eos_token_id) is not None:
        marks = marks._replace(eos=told)

    def look() -> Iterator[Line]:
        contents = look_into(corpus, marks, full=asked.full)
        yield vocabulary_line(contents, asked.facts, source)
        yield marks_line(contents, needs_eos=settings.data.sample.documents == "eos", source=source)
        if spec is not None:
            yield tokenizer_line(contents, spec, source)

    page.add("shards", lambda: [shards_line(corpus, source, full=asked.full, on_progress=asked.on_progress)], source)
    if not page.add("rows", look, source):
        page.not_checked.append(f"{source or 'the corpus'}: ids, documents and tokenizer, as its rows can't be read")


def _look_at_run(
    page: _Page, settings: TrainConfig, dataset: TokenDataset, asked: _Asked, planned: list[Planned]
) -> None:
    ranks, are_given = ranks_of(settings, asked.ranks)

    def plan() -> Iterator[Line]:
        planned.append(plan_run(settings, dataset, ranks, asked.ranks_per_node, asked.steps))
        yield ranks_line(planned[0], are_given)

    if not page.add("ranks", plan):
        page.not_checked.append("partition, steps, epochs, state, cache and memory: the run can't be planned")
        return
    run = planned[0]
    page.add("partition", lambda: [partition_line(run)])
    page.add("steps", lambda: [steps_line(run)])
    page.add("epochs", lambda: epoch_lines(run))
    if asked.state is not None:
        state = asked.state
        page.add("resume", lambda: [resume_line(run, state)])
    page.add("cache", lambda: [cache_line(run)])

    def read() -> Iterator[Line]:
        batch = first_batch(run)
        yield batch_line(batch, asked.facts)
        yield memory_line(run, num_bytes(batch))

    if not page.add("first batch", read):
        page.not_checked.append("memory: no batch could be made, so that its size is not known")
    page.add("open files", lambda: limit_lines(run))


def _sources(dataset: TokenDataset) -> Iterator[tuple[str, Corpus, str | None]]:
    """Names and corpora, and the name that lines need: none where there is only one."""
    is_alone = len(dataset.corpora) == 1
    for name, corpus in zip(dataset.source_names, dataset.corpora, strict=True):
        yield name, corpus, None if is_alone else name
