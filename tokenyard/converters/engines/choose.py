"""Choosing the engine: the fastest that takes the tokenizer and agrees with transformers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from tokenyard.converters.engines.base import Engine, EngineName, SpecialText
from tokenyard.converters.engines.canary import canary, short_canary
from tokenyard.converters.engines.fast import FastokensEngine, GigatokenEngine
from tokenyard.converters.engines.spec import TokenizerSpec
from tokenyard.converters.engines.truth import TransformersEngine
from tokenyard.converters.engines.verdict import disagreement_of
from tokenyard.errors import ConfigError, MissingDependencyError, UnknownTokenizerError, VerificationError

ENGINES: dict[EngineName, Callable[[TokenizerSpec, SpecialText], Engine]] = {
    "gigatoken": GigatokenEngine,
    "fastokens": FastokensEngine,
    "transformers": TransformersEngine,
}
"""Fastest first. One thread, 41 MB of code and 20 MB of prose, MB a second of CPU time (code / prose):

    GPT-2         gigatoken 173 / 151, fastokens 160 / 161, transformers 1.3 (code)
    GPT-NeoX      gigatoken 86 / 148, fastokens 41 / 113, transformers 1.8
    Llama 2       gigatoken 30 / 35, fastokens 28 / 40, transformers 2.4
    DeepSeek      gigatoken 89 / 96, fastokens 160 / 160, transformers 1.2

Between the first two it matters little: reading JSONL gives some 80. The order is fixed, and not measured anew in each
job, so that a job always runs alike."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The engine to use, and why: a sentence for it, and one for each that was passed over.

    spec: the tokenizer for processes that encode; without transformers, where its backend was seen to be the truth.
    """

    engine: Engine
    spec: TokenizerSpec
    reasons: tuple[str, ...]


def build_engine(name: EngineName, spec: TokenizerSpec, special_text: SpecialText = "encode") -> Engine:
    """Build an engine without asking whether it agrees: for worker processes, after `choose_engine` chose.

    MissingDependencyError when it is not installed, UnknownTokenizerError when it can't take the tokenizer.
    """
    if name not in ENGINES:
        raise ConfigError(f"engine: expected one of auto, {', '.join(ENGINES)}; found {name!r}")
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
    lean = _for_workers(spec, truth, special_text)
    if requested == "transformers":
        return Choice(engine=truth, spec=lean, reasons=("transformers: asked for",))
    texts = canary(spec)
    if requested != "auto":
        engine = build_engine(requested, spec, special_text)
        disagreement = disagreement_of(engine, truth, spec, special_text, texts)
        if disagreement is not None:
            raise VerificationError(f"{disagreement}. Use engine: transformers, or auto")
        return Choice(engine=engine, spec=lean, reasons=(f"{requested}: asked for, {_agrees(texts)}",))
    reasons: list[str] = []
    for name in ENGINES:
        if name == "transformers":
            break
        try:
            engine = build_engine(name, spec, special_text)
            disagreement = disagreement_of(engine, truth, spec, special_text, texts)
        except (MissingDependencyError, UnknownTokenizerError) as error:
            reasons.append(f"not {name}: {error}")
            continue
        if disagreement is None:
            reasons.append(f"{name}: the fastest that is left; {_agrees(texts)}")
            return Choice(engine=engine, spec=lean, reasons=tuple(reasons))
        reasons.append(f"not {name}: {disagreement}")
    return Choice(engine=truth, spec=lean, reasons=(*reasons, "transformers: no faster engine is left"))


def _for_workers(spec: TokenizerSpec, truth: TransformersEngine, special_text: SpecialText) -> TokenizerSpec:
    """The spec without transformers, where what is made of its tokenizer.json agrees with the truth; else as it is."""
    if not truth.uses_backend:
        return spec
    lean = spec.without_transformers()
    rebuilt = build_truth(lean, special_text)
    return spec if disagreement_of(rebuilt, truth, spec, special_text, short_canary(spec)) else lean


def _check_special_text(special_text: str) -> None:
    if special_text not in get_args(SpecialText):
        raise ConfigError(f"special_text: expected one of {', '.join(get_args(SpecialText))}; found {special_text!r}")


def _agrees(texts: list[str]) -> str:
    return f"agrees with transformers on all {len(texts)} canary texts"
