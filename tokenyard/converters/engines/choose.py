"""Choosing the engine: the fastest that takes the tokenizer and agrees with transformers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from tokenyard.converters.engines.base import Engine, EngineName, SpecialText
from tokenyard.converters.engines.canary import agree, canary
from tokenyard.converters.engines.fast import FastokensEngine, GigatokenEngine
from tokenyard.converters.engines.spec import TokenizerSpec
from tokenyard.converters.engines.truth import TransformersEngine
from tokenyard.errors import ConfigError, MissingDependencyError, UnknownTokenizerError, VerificationError

ENGINES: dict[EngineName, Callable[[TokenizerSpec, SpecialText], Engine]] = {
    "gigatoken": GigatokenEngine,
    "fastokens": FastokensEngine,
    "transformers": TransformersEngine,
}
"""Fastest first. One thread, 3 MB of Python sources, MB/s: with GPT-2 294, 76 and 2; with DeepSeek 151, 166 and 1;
with Llama 2 31, 44 and 2. The order is fixed, and not measured anew in each job, so that a job always runs alike."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The engine to use, and why: a sentence for it, and one for each that was passed over."""

    engine: Engine
    reasons: tuple[str, ...]


def build_engine(name: EngineName, spec: TokenizerSpec, special_text: SpecialText = "encode") -> Engine:
    """Build an engine without asking whether it agrees: for worker processes, after `choose_engine` chose.

    MissingDependencyError when it is not installed, UnknownTokenizerError when it can't take the tokenizer.
    """
    if name not in ENGINES:
        raise ConfigError(f"engine: expected one of {', '.join(ENGINES)}; found {name!r}")
    _check_special_text(special_text)
    return ENGINES[name](spec, special_text)


def build_truth(spec: TokenizerSpec, special_text: SpecialText = "encode") -> TransformersEngine:
    """Build the engine that decides what is right."""
    _check_special_text(special_text)
    return TransformersEngine(spec, special_text)


def choose_engine(
    spec: TokenizerSpec, requested: Literal["auto"] | EngineName = "auto", special_text: SpecialText = "encode"
) -> Choice:
    """Return the engine to use. Whatever is chosen, the ids are those of transformers.

    `requested` auto takes the first of `ENGINES` that is installed, takes the tokenizer and agrees on the canary. One
    that was asked for by name must do all three: MissingDependencyError, UnknownTokenizerError, or VerificationError
    with the text and both ids.
    """
    truth = build_truth(spec, special_text)
    if requested == "transformers":
        return Choice(engine=truth, reasons=("transformers: asked for",))
    texts = canary(spec)
    if requested != "auto":
        engine = build_engine(requested, spec, special_text)
        disagreement = agree(engine, truth, texts)
        if disagreement is not None:
            raise VerificationError(f"{disagreement}. Use engine: transformers, or auto")
        return Choice(engine=engine, reasons=(f"{requested}: asked for, {_agrees(texts)}",))
    reasons: list[str] = []
    for name in ENGINES:
        if name == "transformers":
            break
        try:
            engine = build_engine(name, spec, special_text)
            disagreement = agree(engine, truth, texts)
        except (MissingDependencyError, UnknownTokenizerError) as error:
            reasons.append(f"not {name}: {error}")
            continue
        if disagreement is None:
            return Choice(engine=engine, reasons=(*reasons, f"{name}: the fastest that is left; {_agrees(texts)}"))
        reasons.append(f"not {name}: {disagreement}")
    return Choice(engine=truth, reasons=(*reasons, "transformers: no faster engine is left"))


def _check_special_text(special_text: str) -> None:
    if special_text not in get_args(SpecialText):
        raise ConfigError(f"special_text: expected one of {', '.join(get_args(SpecialText))}; found {special_text!r}")


def _agrees(texts: list[str]) -> str:
    return f"agrees with transformers on all {len(texts)} canary texts"
