"""The samples of a batch on their way through a transform: what each is handed, and the check of what comes back."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.content import Content
from tokenyard.datasets.samples import IGNORED, DenseFrame
from tokenyard.errors import TransformError

#: What a transform may give back, with the kinds of dtype and their name. The rest of what it was handed is left alone.
_ARRAYS = {"tokens": ("iu", "int64"), "loss_mask": ("b", "bool"), "document_starts": ("b", "bool")}
_LABELS = ("iu", "int64")
_NUMBERS = ("sample_id", "input_width")


class TransformedSamples:
    """The arrays that transformed samples are written to, line by line; `name_of` says what messages call a line's."""

    def __init__(
        self,
        content: Content,
        sample_ids: NDArray[np.int64],
        name_of: Callable[[int], str],
        input_width: int,
        makes_labels: bool,
    ) -> None:
        frame = content.frame
        num_samples, width = frame.shape
        self.lengths = [width] * num_samples if frame.lengths is None else frame.lengths.tolist()
        self._frame = frame
        self._ids = sample_ids.tolist()
        self._name_of = name_of
        self._input_width = input_width
        self._makes_labels = makes_labels
        self._arrays: dict[str, NDArray[Any]] = {"tokens": frame.tokens.astype(np.int64)}
        if content.loss_mask is not None:
            self._arrays["loss_mask"] = content.loss_mask.copy()
        if content.document_starts is not None:
            self._arrays["document_starts"] = content.document_starts.copy()
            self._arrays["document_starts"][:, :1] = True
        # What one sample gets must not depend on what another gave back.
        self._handed = tuple(self._arrays)
        self._labels: NDArray[np.int64] | None = None
        self._has_labels = np.zeros(num_samples, np.bool_)

    def sample(self, line: int) -> dict[str, Any]:
        """Return what a transform is handed."""
        length = self.lengths[line]
        sample: dict[str, Any] = {name: self._arrays[name][line, :length].copy() for name in self._handed}
        return {**sample, "input_width": min(length, self._input_width), "sample_id": self._ids[line]}

    def take(self, line: int, result: Any) -> None:
        """Write what a transform returned. Raises TransformError."""
        if not isinstance(result, Mapping) or "tokens" not in result:
            keys = ", ".join(map(str, result)) or "nothing" if isinstance(result, Mapping) else None
            found = type(result).__name__ if keys is None else f"one with {keys}"
            raise self._error(line, f"expected a dict with tokens, found {found}; return tokens, changed or not")
        length = self.lengths[line]
        for name, value in result.items():
            if name == "labels" and self._makes_labels:
                width = min(length, self._input_width)
                self._check_array(line, name, value, width, _LABELS)
                if self._labels is None:
                    self._labels = np.full((len(self._ids), self._input_width), IGNORED, np.int64)
                self._labels[line, :width] = value
                self._has_labels[line] = True
            elif name in _ARRAYS and (name in self._arrays or (name == "loss_mask" and self._makes_labels)):
                self._check_array(line, name, value, length, _ARRAYS[name])
                if name not in self._arrays:
                    self._arrays[name] = np.ones(self._frame.shape, np.bool_)
                self._arrays[name][line, :length] = value
            elif name not in _NUMBERS:
                raise self._error(line, self._why_unknown(name))

    def content(self, id_limit: int) -> Content:
        """Return all that was written. Raises TransformError where an id is not below `id_limit`."""
        tokens = self._arrays["tokens"]
        self._check_ids("tokens", tokens, id_limit, "")
        if self._labels is not None:
            self._check_ids("labels", np.where(self._labels == IGNORED, 0, self._labels), id_limit, f"{IGNORED} or ")
        return Content(
            frame=DenseFrame(tokens=tokens, lengths=self._frame.lengths),
            loss_mask=self._arrays.get("loss_mask"),
            document_starts=self._arrays.get("document_starts"),
            labels=self._labels,
            has_labels=None if self._labels is None else self._has_labels,
        )

    def _check_array(self, line: int, name: str, value: Any, length: int, expected: tuple[str, str]) -> None:
        kinds, dtype = expected
        if isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.shape == (length,):
            return
        found = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        way_out = (
            "; cut or fill what it makes to the length that it is given"
            if isinstance(value, np.ndarray) and value.dtype.kind in kinds
            else ""
        )
        raise self._error(line, f"{name}: expected {dtype} of shape ({length},), found {found}{way_out}")

    def _check_ids(self, name: str, ids: NDArray[np.int64], limit: int, other: str) -> None:
        # Seen as unsigned, a negative number is larger than any id.
        if not ids.size or int(ids.view(np.uint64).max()) < limit:
            return
        outside = (ids < 0) | (ids >= limit)
        if self._frame.is_token is not None:
            outside &= self._frame.is_token[:, : ids.shape[1]]
        for line, column in np.argwhere(outside).tolist():
            raise self._error(
                line,
                f"{name}[{column}]: expected {other}an id below {limit}, found {ids[line, column]}; use ids inside the "
                "vocabulary that the corpus declares, such as those that its tokenizer reserves",
            )

    def _why_unknown(self, name: Any) -> str:
        if name in ("labels", "loss_mask"):
            return f"found {name}, but the dataset's labels is 'none'; choose other labels, or leave {name} out"
        if name == "document_starts":
            return "found document_starts, but nothing asks where documents begin; set boundaries, or leave it out"
        return f"expected the keys {', '.join((*_ARRAYS, 'labels'))}, found {name!r}; leave it out"

    def _error(self, line: int, problem: str) -> TransformError:
        return TransformError(f"{self._name_of(line)}, returned by the transform: {problem}")
