"""A corpus as a dataset of torch: by index, by a list of indices, and as whole batches by one gather."""

import copy
import operator
import os
from collections.abc import Sequence
from functools import partial
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import Dataset

from tokenyard.corpus import Corpus, kernels, open_corpus, row_starts  # noqa: F401  # else first batches load them
from tokenyard.datasets.batches import MicroBatch, MicroBatchIds
from tokenyard.datasets.content import Content
from tokenyard.datasets.document_rule import DocumentsBy, document_rule
from tokenyard.datasets.documents import document_tensors, numbered_tensors
from tokenyard.datasets.row_samples import Rows
from tokenyard.datasets.samples import IGNORED, Labels, Mode, Samples, check_options, default_seq_len, label_shift
from tokenyard.datasets.tensors import empty_tensor, keep_freed_memory, mask_labels
from tokenyard.datasets.transforms import PURPOSE, Transform, apply_transform, purposes_of, sample_keys
from tokenyard.datasets.windows import Windows
from tokenyard.errors import ConfigError
from tokenyard.permutation.checks import check_int
from tokenyard.permutation.keyed import KEY_LIMIT
from tokenyard.stages import stage

LOSS_MASK = "loss_mask"
#: What only a whole batch has, and no single sample.
_OF_BATCHES = ("cu_seqlens", "max_seqlen")


class TokenDataset(Dataset[dict[str, Tensor]]):
    """The samples of a corpus, for torch's `DataLoader` as it is, or for `build_dataloader`.

    A sample is a dict of tensors, int64 unless said otherwise:

    - `input_ids`, `labels`: [seq_len]. No `labels` when `labels` is none. A label of -100 is masked.
    - `sample_ids`: the number of the sample in the dataset.
    - `attention_mask`: [seq_len], 1 at tokens and 0 at padding; in every sample where rows are of different lengths,
      or shorter than `seq_len`, and in none otherwise.
    - `position_ids`, `document_ids`: int32[seq_len], with `boundaries`. Positions begin again at 0 with each document;
      documents are numbered from 0 in each sample, padding is -1.

    `batch` stacks them, and with `boundaries` adds `cu_seqlens` int32[documents + 1] and `max_seqlen` (int32, no
    dimension), for attention over the batch seen as one line; padding of a row counts as a document.

    A list field `loss_mask` as long as the tokens, where the corpus has one, masks the labels whose token it marks 0.

    Args:
        source: a corpus, or what `open_corpus` takes.
        seq_len: tokens of a sample; when not given, `concat` takes the length of packed rows, else 2,048. With `rows`:
            what rows are padded to (none may be longer), or nothing, to pad to the longest row of a batch.
        mode: `concat` (windows over the token stream) or `rows` (a row is a sample).
        labels: `shifted` (label t is the token after input t), `same` (for models that shift inside), or `none`.
        boundaries: whether samples say where documents begin.
        mask_boundaries: whether labels are masked that another document than their input's holds.
        documents: what begins a document, for both: `rows` (each row is one), `lengths` (those that packed rows carry),
            `eos` (the token after each EOS id), or `auto`: lengths where rows carry them, else rows.
        eos_token_id: the id that documents end with, for `eos`; that of the corpus when not given.
        transform: what is done to each sample before its labels are made; see `Transform`.
        seed: of the random generators that the transform draws from, below 2**64.

    Raises:
        ConfigError: an option is unknown or doesn't fit the corpus; the message names it.
    """

    def __init__(
        self,
        source: Corpus | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
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
    ) -> None:
        check_options(mode, labels, seq_len, mask_boundaries)
        corpus = source if isinstance(source, Corpus) else open_corpus(source)
        self.corpora: tuple[Corpus, ...] = (corpus,)
        self.source_names: tuple[str, ...] = (corpus.path.absolute().name,)
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

    def _set_up(
        self,
        seq_len: int | None,
        mode: Mode,
        labels: Labels,
        *,
        boundaries: bool,
        mask_boundaries: bool,
        documents: DocumentsBy,
        eos_token_id: int | None,
        transform: Transform | None,
        seed: int,
    ) -> None:
        """Do what is the same for one corpus and for several, once these are open."""
        check_int("seed", seed, at_least=0, below=KEY_LIMIT)
        if transform is not None and not callable(transform):
            raise ConfigError(f"transform: expected a function of a sample and a generator, found {transform!r:.60}")
        self.mode: Mode = mode
        self.labels: Labels = labels
        self._documents: DocumentsBy = documents
        self._eos_token_id = eos_token_id
        self._transform = transform
        self._seed = seed
        self._boundaries = boundaries
        self._mask_boundaries = mask_boundaries
        if seq_len is None and mode == "concat":
            seq_len = default_seq_len(corpus.layout.seq_len for corpus in self.corpora)
        self._samples = self._samples_of(seq_len)
        if boundaries or mask_boundaries:
            self._samples.check_boundaries()
        masks = [labels != "none" and _has_loss_mask(corpus) for corpus in self.corpora]
        self._has_loss_mask = any(masks)
        needs_marks = transform is not None or self._samples.number_documents is None
        self._marks_documents = mask_boundaries or (boundaries and needs_marks)
        self._with_seq_len: dict[int, Self] = {}

    def _samples_of(self, seq_len: int | None) -> Samples:
        return self._samples_of_source(0, seq_len)

    def _samples_of_source(self, source: int, seq_len: int | None) -> Windows | Rows:
        corpus = self.corpora[source]
        used = self._boundaries or self._mask_boundaries
        rule = document_rule(corpus, self._documents, self._eos_token_id, used=used)
        if self.mode == "rows":
            return Rows(corpus, seq_len, rule)
        assert seq_len is not None  # `_set_up` asks packed rows, or takes the default
        return Windows(corpus, seq_len, self.labels, rule)

    @property
    def corpus(self) -> Corpus:
        """The corpus. Raises ConfigError where there are several."""
        if len(self.corpora) > 1:
            raise ConfigError(f"expected one corpus, found {len(self.corpora)}; see `corpora` of {self!r}")
        return self.corpora[0]

    def list_fields(self, corpus: Corpus) -> list[str]:
        """Return the list fields of a corpus that batches are made of, beside its tokens."""
        fields = [LOSS_MASK] if self._has_loss_mask else []
        if corpus.layout.lengths_field is not None and (
            self._boundaries or self._mask_boundaries or self.mode == "rows"
        ):
            fields.append(corpus.layout.lengths_field)
        return [field for field in fields if field in corpus.schema.fields]

    def num_samples_of(self, source: int) -> int:
        """Return the samples of a source by its number; a dataset of one corpus has source 0. Raises IndexError."""
        self._check_source(source)
        return len(self)

    def locate(self, indices: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the source of each sample, and its number there, both in the shape of `indices`.

        Raises:
            IndexError: an index is not in [0, len).
        """
        ids = np.asarray(indices, np.int64)
        if ids.size and (ids.min() < 0 or ids.max() >= len(self)):
            raise IndexError(f"samples {ids.min()} .. {ids.max()} are not all within the {len(self)} of {self!r}")
        return self._located(ids)

    def _located(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.zeros_like(ids), ids

    def with_seq_len(self, seq_len: int) -> Self:
        """Return the same corpora cut into samples of another length; the same dataset each time it is asked for.

        Its samples have numbers of their own.

        Raises:
            ConfigError: the mode is `rows`, where rows are samples as they are, or `seq_len` is no length.
        """
        if seq_len == self.seq_len and self.mode == "concat":
            return self
        check_options(self.mode, self.labels, seq_len, self._mask_boundaries)
        if self.mode != "concat":
            raise ConfigError(
                f"seq_len: {seq_len} was asked for, but mode {self.mode} takes rows as they are; use mode concat where "
                "the length of samples changes"
            )
        if seq_len not in self._with_seq_len:
            other = copy.copy(self)
            other._samples = self._samples_of(seq_len)
            other._with_seq_len = {}
            # Of two threads that come here at once, both get the one that was there first.
            return self._with_seq_len.setdefault(seq_len, other)
        return self._with_seq_len[seq_len]

    @property
    def seq_len(self) -> int | None:
        """Tokens of every sample; None when they differ from batch to batch."""
        return self._samples.seq_len

    def __len__(self) -> int:
        return self._samples.num_samples

    def __repr__(self) -> str:
        return f"TokenDataset({self.corpus!r}, {len(self)} samples, seq_len {self.seq_len}, {self.mode})"

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """Return one sample. Negative indices count from the end. Raises IndexError."""
        return self.__getitems__([operator.index(index)])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Tensor]]:
        """Return samples, read by one gather; torch's `DataLoader` asks for all of a batch by this.

        What a `RankSampler` yields knows more of its micro-batch than the numbers of samples: it gives what
        `micro_batch` does.
        """
        if isinstance(indices, MicroBatchIds):
            whole = self.micro_batch(indices.micro_batch, with_mask=indices.with_mask)
        else:
            whole = self.batch(indices)
        batch = {name: tensor.unbind(0) for name, tensor in whole.items() if name not in _OF_BATCHES}
        return [dict(zip(batch, sample, strict=True)) for sample in zip(*batch.values(), strict=True)]

    def micro_batch(self, taken: MicroBatch, *, with_mask: bool, pin_memory: bool = False) -> dict[str, Tensor]:
        """Return a micro-batch as tensors; the same in threads and in processes.

        Args:
            taken: which samples, cut to which length, of which epochs.
            with_mask: whether to add `sample_mask`, bool[micro_batch_size], false at samples that only fill the last
                global batch up; their labels are masked.
            pin_memory: whether tensors are page-locked; needs CUDA.
        """
        dataset = self if taken.seq_len is None else self.with_seq_len(taken.seq_len)
        batch = dataset._batch(
            taken.sample_ids.copy(),  # a part of what was placed at once, and the caller's from here on
            epochs=taken.epochs,
            purposes=None if taken.sources is None else purposes_of(taken.sources),
            pin_memory=pin_memory,
        )
        if with_mask:
            is_padding = torch.from_numpy(taken.is_padding.copy())
            batch["sample_mask"] = ~is_padding
            if "labels" in batch:
                batch["labels"][is_padding] = IGNORED
        if pin_memory:
            return {name: tensor if tensor.is_pinned() else tensor.pin_memory() for name, tensor in batch.items()}
        return batch

    def batch(
        self,
        indices: ArrayLike,
        *,
        epochs: int | NDArray[np.int64] = 0,
        purposes: NDArray[np.int64] | None = None,
        pin_memory: bool = False,
    ) -> dict[str, Tensor]:
        """Return samples as one batch: each tensor of a sample with a first dimension of `len(indices)`, contiguous.

        Args:
            indices: whole numbers in [-len, len), in any order; the same one may come again.
            epochs: the epoch that is read, or that of each index, int64[n]; it changes what the transform draws, and
                nothing else. By index it is 0, and by a `DataLoader` too, but for one over a
                `RankSampler`.
            purposes: what else tells the transform's generators apart, int64[n]: in a mixture `purposes_of` the numbers
                of sources in the run. When not given, those of a run that began with these sources, in their order.
            pin_memory: whether the large tensors are made in page-locked memory; needs CUDA.

        Raises:
            IndexError: an index is outside the dataset.
            TransformError: the transform returned what can't be trained on; the message names the sample.
            DataError: what the corpus holds is damaged.
        """
        return self._batch(self._checked(indices), epochs=epochs, purposes=purposes, pin_memory=pin_memory)

    def _batch(
        self,
        ids: NDArray[np.int64],
        *,
        epochs: int | NDArray[np.int64],
        purposes: NDArray[np.int64] | None,
        pin_memory: bool,
    ) -> dict[str, Tensor]:
        """Return the batch of samples whose numbers were checked; `ids` becomes a part of it."""
        keep_freed_memory()
        numbers = self._numbers(ids)
        content = self._read(ids)
        if self._transform is not None:
            sample_ids = numbers["sample_ids"].numpy()
            of_sources = self._purposes(numbers) if purposes is None else purposes
            keys = sample_keys(self._seed, self._checked_epochs(epochs, len(ids)), of_sources, sample_ids)
            with stage("transform"):
                content = self._transformed(self._transform, content, numbers, keys)
        frame, starts = content.frame, content.document_starts
        width = self._samples.input_width(frame)
        batch = {"input_ids": empty_tensor(len(ids), width, torch.int64, pin_memory)}
        shift, labels = label_shift(self.labels), None
        if self.labels != "none":
            labels = batch["labels"] = empty_tensor(len(ids), width, torch.int64, pin_memory)
        frame.copy_to(batch["input_ids"].numpy(), None if labels is None else labels.numpy(), shift=shift)
        if labels is not None:
            mask_labels(labels, content, shift=shift, mask_boundaries=self._mask_boundaries)
        if frame.is_token is not None:
            batch["attention_mask"] = torch.from_numpy(frame.is_token.astype(np.int64))
        if self._boundaries and starts is not None:
            batch |= document_tensors(starts, frame.lengths, width, pin_memory=pin_memory)
        elif self._boundaries and (number := self._samples.number_documents) is not None:
            numbering = partial(number, ids, batch["input_ids"].numpy())
            batch |= numbered_tensors(numbering, len(ids), width, pin_memory=pin_memory)
        return batch | numbers

    def _numbers(self, ids: NDArray[np.int64]) -> dict[str, Tensor]:
        """Return what a batch says of which samples it holds; `ids` is the batch's own."""
        return {"sample_ids": torch.from_numpy(ids)}

    def _purposes(self, numbers: dict[str, Tensor]) -> int | NDArray[np.int64]:
        """Return what tells the transform's generators apart, from what `_numbers` gave."""
        return PURPOSE

    def _name_of(self, numbers: dict[str, Tensor], place: int) -> str:
        """Return what messages call a sample of a batch, from what `_numbers` gave."""
        return f"sample {int(numbers['sample_ids'][place])}"

    def _read(self, ids: NDArray[np.int64]) -> Content:
        frame = self._samples.frame(ids)
        return Content(
            frame=frame,
            loss_mask=self._samples.items_beside(ids, frame, LOSS_MASK) != 0 if self._has_loss_mask else None,
            document_starts=self._samples.document_starts(ids, frame) if self._marks_documents else None,
        )

    def _transformed(
        self, transform: Transform, content: Content, numbers: dict[str, Tensor], keys: Sequence[int]
    ) -> Content:
        known = [corpus.schema.vocab_size for corpus in self.corpora if corpus.schema.vocab_size is not None]
        return apply_transform(
            transform,
            content,
            sample_ids=numbers["sample_ids"].numpy(),
            name_of=partial(self._name_of, numbers),
            keys=keys,
            input_width=self._samples.input_width(content.frame),
            vocab_size=max(known) if len(known) == len(self.corpora) else None,
            makes_labels=self.labels != "none",
        )

    def _checked_epochs(self, epochs: int | NDArray[np.int64], count: int) -> NDArray[np.int64]:
        given = np.asarray(epochs)
        if given.dtype.kind not in "iu" or given.shape not in ((), (count,)) or (given < 0).any():
            raise ConfigError(
                f"epochs: expected a whole number from 0 on, or one for each of the {count} samples, found {epochs!r}"
            )
        return np.broadcast_to(given, (count,)).astype(np.int64)

    def _check_source(self, source: int) -> None:
        if not 0 <= source < len(self.corpora):
            raise IndexError(f"source {source} is not within the {len(self.corpora)} of {self!r}")

    def _checked(self, indices: ArrayLike) -> NDArray[np.int64]:
        given = np.asarray(indices)
        if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
            raise IndexError(f"expected a list of whole numbers, found {given.dtype} of shape {given.shape}")
        ids = given.astype(np.int64)
        size = len(self)
        # Seen as unsigned, a negative number is larger than any size.
        if ids.size and int(ids.view(np.uint64).max()) >= size:
            if ids.min() < -size or ids.max() >= size:
                raise IndexError(f"samples {ids.min()} .. {ids.max()} are not all within the {size} of {self!r}")
            ids[ids < 0] += size
        return ids


def _has_loss_mask(corpus: Corpus) -> bool:
    declared = corpus.schema.fields.get(LOSS_MASK)
    if declared is not None and not declared.is_list:
        raise ConfigError(
            f"{corpus.path}: its field {LOSS_MASK!r} is declared as {declared}, but it masks tokens, so it must "
            "be a list with an item a token, such as 'uint8[]'; give the field another name if it means something else"
        )
    return declared is not None
