"""The engines that are much faster than transformers, where they take the tokenizer at all."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from tokenyard.converters.engines.base import Encoded, EngineName, SpecialText, empty_encoded
from tokenyard.converters.engines.spec import TokenizerSpec
from tokenyard.errors import MissingDependencyError, UnknownTokenizerError

T = TypeVar("T")


class FastokensEngine:
    """The `fastokens` library. Its threads are rayon's: `limit_threads` holds them to one."""

    name: EngineName = "fastokens"

    def __init__(self, spec: TokenizerSpec, special_text: SpecialText) -> None:
        """Raise UnknownTokenizerError when the library can't take the tokenizer, and why."""
        try:
            import fastokens
        except ImportError as error:
            raise _missing("fastokens") from error
        content = _tokenizer_json(spec, self.name)
        self._tokenizer: Any = _guarded(self.name, spec.name, lambda: fastokens.Tokenizer.from_json_str(content))
        self._plain = special_text == "plain"

    def encode_batch(self, texts: list[str]) -> Encoded:
        """See `Engine.encode_batch`."""
        if not texts:
            return empty_encoded()
        ids, offsets = _guarded(
            self.name,
            f"a batch of {len(texts)} texts",
            lambda: self._tokenizer.encode_batch_flat(
                texts, add_special_tokens=False, split_special_tokens=self._plain
            ),
        )
        ends = np.frombuffer(offsets, "<u8").astype(np.int64)
        return Encoded(ids=np.frombuffer(ids, "<u4"), lengths=ends[1:] - ends[:-1])


class GigatokenEngine:
    """The `gigatoken` library, on the calling thread alone."""

    name: EngineName = "gigatoken"

    def __init__(self, spec: TokenizerSpec, special_text: SpecialText) -> None:
        """Raise UnknownTokenizerError when the library can't take the tokenizer, and why."""
        try:
            import gigatoken

            awkward = import_module("awkward")
        except ImportError as error:
            raise _missing("gigatoken") from error
        content = _tokenizer_json(spec, self.name)
        if special_text == "plain":
            content = _without_special(content)
        self._awkward: Any = awkward
        self._tokenizer: Any = _guarded(self.name, spec.name, lambda: gigatoken.Tokenizer.from_json(content))

    def encode_batch(self, texts: list[str]) -> Encoded:
        """See `Engine.encode_batch`."""
        if not texts:
            return empty_encoded()
        encoded: Encoded = _guarded(self.name, f"a batch of {len(texts)} texts", lambda: self._encode(texts))
        return encoded

    def _encode(self, texts: list[str]) -> Encoded:
        found = self._tokenizer.encode_batch(texts, parallel=False)
        lists = self._awkward.to_layout(found).to_ListOffsetArray64(True)  # offsets from 0
        offsets = np.asarray(lists.offsets.data)
        ids = np.asarray(lists.content.data)[: offsets[-1]].astype(np.uint32, copy=False)
        return Encoded(ids=ids, lengths=np.diff(offsets))


def _tokenizer_json(spec: TokenizerSpec, name: str) -> str:
    if spec.json is None:
        raise UnknownTokenizerError(f"{name} needs a tokenizer.json; {spec.name} is a slow tokenizer, which has none")
    return spec.json


def _without_special(tokenizer_json: str) -> str:
    """Return a tokenizer.json that knows no special token, so that their text is text like any other."""
    found = json.loads(tokenizer_json)
    found["added_tokens"] = [token for token in found["added_tokens"] if not token["special"]]
    found["post_processor"] = None  # it may name tokens that are gone
    return json.dumps(found, ensure_ascii=False)


def _guarded(name: str, what: str, call: Callable[[], T]) -> T:
    """Call into a library; whatever it raises, a panic of its Rust code too, becomes an UnknownTokenizerError."""
    try:
        return call()
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = str(error).split("\n", 1)[0]
        raise UnknownTokenizerError(f"{name} can't take {what}: {reason}") from error


def _missing(name: str) -> MissingDependencyError:
    return MissingDependencyError(f"the engine {name} is not installed: pip install {name}, or 'tokenyard[tokenize]'")
