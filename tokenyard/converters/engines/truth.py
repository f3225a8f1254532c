"""The `transformers` engine: slow, and the truth that others are held to."""

from collections.abc import Iterator

import numpy as np

from tokenyard.converters.engines.base import Encoded, EngineName, SpecialText, concatenate, from_lists
from tokenyard.converters.engines.spec import BackendTokenizer, TokenizerSpec

# Encodings take some 170 bytes a byte of text while they live.
_BATCH_CHARS = 1 << 19


class TransformersEngine:
    """Encodes with the tokenizer object, or with its backend alone where that was seen to give the same.

    The backend skips the object's own work a text, which gives nothing here: truncation, padding, masks.
    `uses_backend` says which of the two it is.
    """

    name: EngineName = "transformers"
    special_text: SpecialText

    def __init__(self, spec: TokenizerSpec, special_text: SpecialText, *, use_backend: bool | None = None) -> None:
        self._tokenizer = spec.tokenizer
        self.special_text = special_text
        self._plain = special_text == "plain"
        self.uses_backend = self._backend_agrees(spec) if use_backend is None else use_backend

    def encode_batch(self, texts: list[str]) -> Encoded:
        """See `Engine.encode_batch`."""
        return concatenate([self._encode(batch) for batch in _batches(texts)])

    def _encode(self, texts: list[str]) -> Encoded:
        if not self.uses_backend:
            found = self._tokenizer(
                texts,
                add_special_tokens=False,
                split_special_tokens=self._plain,
                padding=False,
                truncation=False,
                return_attention_mask=False,
                return_token_type_ids=False,
            )
            return from_lists(found["input_ids"])
        backend = self._tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = self._plain
        encodings = backend.encode_batch_fast(texts, add_special_tokens=False)
        ids = [np.array(encoding.ids, np.uint32) for encoding in encodings]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return Encoded(ids=np.concatenate(ids), lengths=lengths)

    def _backend_agrees(self, spec: TokenizerSpec) -> bool:
        from tokenyard.converters.engines.canary import agree, short_canary

        if isinstance(spec.tokenizer, BackendTokenizer):
            return True
        if not spec.tokenizer.is_fast:
            return False
        self.uses_backend = True
        whole = TransformersEngine(spec, self.special_text, use_backend=False)
        return agree(self, whole, short_canary(spec)) is None


def _batches(texts: list[str]) -> Iterator[list[str]]:
    """Cut a list of texts into runs of about `_BATCH_CHARS` characters."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
