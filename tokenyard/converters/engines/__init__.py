"""Tokenizers, the engines that encode with them, and what proves that the ids are right."""

from tokenyard.converters.engines.base import Encoded, Engine, EngineName, SpecialText, limit_threads
from tokenyard.converters.engines.canary import Disagreement, agree, canary
from tokenyard.converters.engines.choose import Choice, build_engine, build_truth, choose_engine
from tokenyard.converters.engines.cuts import CutRule, NoCutRule, derive_cut_rule
from tokenyard.converters.engines.load import load_tokenizer
from tokenyard.converters.engines.long import CutLimits, Uncuttable, cut_document, encode_parts
from tokenyard.converters.engines.proof import find_disagreement
from tokenyard.converters.engines.spec import TokenizerSpec
from tokenyard.converters.engines.special import SpecialTextFinder

__all__ = [
    "Choice",
    "CutLimits",
    "CutRule",
    "Disagreement",
    "Encoded",
    "Engine",
    "EngineName",
    "NoCutRule",
    "SpecialText",
    "SpecialTextFinder",
    "TokenizerSpec",
    "Uncuttable",
    "agree",
    "build_engine",
    "build_truth",
    "canary",
    "choose_engine",
    "cut_document",
    "derive_cut_rule",
    "encode_parts",
    "find_disagreement",
    "limit_threads",
    "load_tokenizer",
]
