"""Several corpora as one dataset of torch, whatever their formats."""

import os
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tokenyard.corpus import Corpus, open_corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.document_rule import DocumentsBy
from tokenyard.datasets.mixed_samples import MixedSamples
from tokenyard.datasets.samples import Labels, Mode, check_options
from tokenyard.datasets.transforms import Transform, purposes_of
from tokenyard.errors import ConfigError

Int64Array = NDArray[np.int64]


class MixtureDataset(TokenDataset):
    """The samples of several corpora, the *sources*, one after another; see `TokenDataset`.

    An index is a *flat id*: source k's samples follow those of source k - 1. Which ones are drawn, and how often, is
    for the sampler to say. Samples are those of each source alone, and besides:

    - `source_ids`: the number of the sample's source, from 0.
    - `sample_ids`: the number of the sample in its source.
    - Rows of different widths are padded to the widest of the batch. All batches have the same keys.
    - A source without a field `loss_mask` that another source has counts as all ones.

    Args:
        sources: names, each with a corpus or what `open_corpus` takes.
        seq_len: as in `TokenDataset`, for all sources; so are the arguments after it.
        mode: as there.
        labels: as there.
        boundaries: as there.
        mask_boundaries: as there.
        documents: as there.
        eos_token_id: as there; that of each source when not given.
        transform: as there; it is not told the source.
        seed: as there.
        allow_different_tokenizers: whether sources may have ids of different tokenizers or vocabularies.

    Raises:
        ConfigError: an option is unknown or doesn't fit a source; two sources hold the same, or ids that mean different
            things.
    """

    _samples: MixedSamples

    def __init__(
        self,
        sources: Mapping[str, Corpus | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]],
        seq_len: int | None = None,
        mode: Mode = "concat",
        labels: Labels = "shifted",
        *,
        boundaries: bool = False,
        mask_boundaries: bool = False,
        documents: DocumentsBy = "auto",
        eos_token_id: int | None = None,
        transform: Transform | None = None,
        seed: int = 0,
        allow_different_tokenizers: bool = False,
    ) -> None:
        check_options(mode, labels, seq_len, mask_boundaries)
        if not sources:
            raise ConfigError("sources: expected at least one name with a corpus, found none")
        self.source_names = tuple(sources)
        self.corpora = tuple(c if isinstance(c, Corpus) else open_corpus(c) for c in sources.values())
        check_sources(dict(zip(self.source_names, self.corpora, strict=True)), allow_different_tokenizers)
        self._set_up(
            seq_len,
            mode,
            labels,
            boundaries=boundaries,
            mask_boundaries=mask_boundaries,
            documents=documents,
            eos_token_id=eos_token_id,
            transform=transform,
            seed=seed,
        )

    def __repr__(self) -> str:
        names = ", ".join(self.source_names)
        return f"MixtureDataset({names}: {len(self)} samples, seq_len {self.seq_len}, {self.mode})"

    def num_samples_of(self, source: int) -> int:
        """Return the samples of a source by its number. Raises IndexError."""
        self._check_source(source)
        return int(np.diff(self._samples.first)[source])

    def _located(self, ids: Int64Array) -> tuple[Int64Array, Int64Array]:
        return self._samples.locate(ids)

    def flat_ids(self, source_ids: ArrayLike, sample_ids: ArrayLike) -> Int64Array:
        """Return the flat ids of samples, from the source of each and its number there; shapes are broadcast.

        Raises:
            IndexError: there is no such source, or it has no such sample.
        """
        sources, samples = np.broadcast_arrays(np.asarray(source_ids, np.int64), np.asarray(sample_ids, np.int64))
        if sources.size and (sources.min() < 0 or sources.max() >= len(self.corpora)):
            raise IndexError(
                f"sources {sources.min()} .. {sources.max()} are not all within the {len(self.corpora)} of {self!r}"
            )
        outside = (samples < 0) | (samples >= np.diff(self._samples.first)[sources])
        if outside.any():
            source, sample = int(sources[outside][0]), int(samples[outside][0])
            raise IndexError(
                f"sample {sample} is not within the {self.num_samples_of(source)} of source "
                f"{self.source_names[source]!r}"
            )
        flat: Int64Array = self._samples.first[sources] + samples
        return flat

    def _samples_of(self, seq_len: int | None) -> MixedSamples:
        parts = [self._samples_of_source(k, seq_len) for k in range(len(self.corpora))]
        return MixedSamples(parts, [corpus.schema.fields for corpus in self.corpora])

    def _numbers(self, ids: Int64Array) -> dict[str, Tensor]:
        sources, samples = self._samples.locate(ids)
        return {"source_ids": torch.from_numpy(sources), "sample_ids": torch.from_numpy(samples)}

    def _purposes(self, numbers: dict[str, Tensor]) -> Int64Array:
        return purposes_of(numbers["source_ids"].numpy())

    def _name_of(self, numbers: dict[str, Tensor], place: int) -> str:
        name = self.source_names[int(numbers["source_ids"][place])]
        return f"{super()._name_of(numbers, place)} of source {name!r}"


def check_sources(corpora: Mapping[str, Corpus], allow_different_tokenizers: bool = False) -> None:
    """Refuse corpora that can't be mixed. Raises ConfigError that names two of them.

    What a corpus doesn't say of itself, its tokenizer, vocabulary or digest, is not held against it.
    """
    names: dict[str, str] = {}
    for name, corpus in corpora.items():
        first = names.setdefault(corpus.digest or corpus.structural_id, name)
        if first != name:
            raise ConfigError(_same_content(first, corpora[first], name, corpus))
    if allow_different_tokenizers:
        return
    for what in ("tokenizer", "vocab_size"):
        said = {name: getattr(corpus.schema, what) for name, corpus in corpora.items()}
        known = [(name, value) for name, value in said.items() if value is not None]
        for name, value in known[1:]:
            if value != known[0][1]:
                raise ConfigError(
                    f"data.sources: {known[0][0]!r} has {what} {known[0][1]}, {name!r} has {value}, so an id may mean "
                    "different text in each; tokenize both alike, or set data.allow_different_tokenizers: true"
                )


def _same_content(name: str, corpus: Corpus, other_name: str, other: Corpus) -> str:
    advice = "keep one of them, and give it the weight of both"
    if corpus.digest is not None:
        return f"data.sources: {name!r} and {other_name!r} hold the same rows, {corpus.digest}; {advice}"
    return (
        f"data.sources: {name!r} and {other_name!r} have files of the same names, sizes and rows, and no digest; "
        f"{advice}. If they hold different tokens, run `tokenyard index` on {corpus.path} and on "
        f"{other.path}: their digests will tell them apart"
    )
