"""Whether engines, and texts that were cut, agree with the truth: found out once, and kept in the user's cache.

A verdict is known by all that it depends on: the tokenizer, the policy for special text, the canary's texts, the code
in this folder, which changes between versions too, and the versions of every package involved. Only agreement is kept.
A disagreement is found anew each time, with the text that shows it.
"""

import platform
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from tokenyard.converters.engines.base import Engine, SpecialText
from tokenyard.converters.engines.canary import Disagreement, agree
from tokenyard.converters.engines.spec import TokenizerSpec
from tokenyard.converters.engines.truth import TransformersEngine
from tokenyard.storage.user_cache import cache_key, recall, remember

Wrong = TypeVar("Wrong")

_AGREES = b"agrees\n"
#: What encodes, or hands texts and ids to and fro. Those that are not installed have no part in it.
_PACKAGES = ("tokenyard", "transformers", "tokenizers", "fastokens", "gigatoken", "awkward", "numpy")


def disagreement_of(
    engine: Engine, truth: TransformersEngine, spec: TokenizerSpec, special_text: SpecialText, texts: Sequence[str]
) -> Disagreement | None:
    """The first of ``texts`` on which the engine differs from the truth, as ``agree`` finds it; None when none does."""
    name = _name("canary", truth, spec, special_text, texts, _code_of(engine))
    return _unless_known(name, lambda: agree(engine, truth, texts))


def wrong_cut_of(
    truth: TransformersEngine, spec: TokenizerSpec, texts: Sequence[str], find: Callable[[], str | None]
) -> str | None:
    """What ``find`` shows of ``texts`` that a cut changes, as text; None when it finds none, or was known to."""
    return _unless_known(_name("cuts", truth, spec, truth.special_text, texts), find)


def _unless_known(name: str, find: Callable[[], Wrong | None]) -> Wrong | None:
    if recall(name) == _AGREES:
        return None
    wrong = find()
    if wrong is None:
        remember(name, _AGREES)
    return wrong


def _name(
    what: str,
    truth: TransformersEngine,
    spec: TokenizerSpec,
    special_text: SpecialText,
    texts: Sequence[str],
    *known_by: str,
) -> str:
    key = cache_key(
        what,
        spec.fingerprint,
        _code_of(spec.tokenizer),
        truth.uses_backend,
        special_text,
        list(texts),
        *known_by,
        _own_code(),
        {package: _version(package) for package in _PACKAGES},
        platform.python_version(),
        platform.machine(),
    )
    return f"engines/{key[:2]}/{key}"


def _own_code() -> str:
    return cache_key({path.name: path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py")})


def _code_of(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
