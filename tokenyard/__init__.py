"""tokenyard: keep tokens in any storage format, and train from any of them with the same batches."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from tokenyard.corpus import Corpus, CorpusWriter, open_corpus
from tokenyard.errors import MissingDependencyError, TokenyardError
from tokenyard.schema import Schema

if TYPE_CHECKING:
    from tokenyard.config import load_config
    from tokenyard.converters.convert import convert
    from tokenyard.converters.filter_rows import filter_rows
    from tokenyard.converters.merge import merge
    from tokenyard.converters.pack import pack
    from tokenyard.converters.split import split
    from tokenyard.converters.tokenize import tokenize
    from tokenyard.converters.verify import verify
    from tokenyard.datasets.dataset import TokenDataset
    from tokenyard.datasets.loader import build_dataloader
    from tokenyard.datasets.mixture_dataset import MixtureDataset
    from tokenyard.monitor.monitor import Monitor

__all__ = [
    "Corpus",
    "CorpusWriter",
    "MixtureDataset",
    "Monitor",
    "Schema",
    "TokenDataset",
    "TokenyardError",
    "build_dataloader",
    "convert",
    "filter_rows",
    "load_config",
    "merge",
    "open_corpus",
    "pack",
    "split",
    "tokenize",
    "verify",
]

#: Loaded when first asked for, since they import torch, or are not needed to read a corpus.
_LAZY = {
    "MixtureDataset": "tokenyard.datasets.mixture_dataset",
    "Monitor": "tokenyard.monitor.monitor",
    "TokenDataset": "tokenyard.datasets.dataset",
    "build_dataloader": "tokenyard.datasets.loader",
    "convert": "tokenyard.converters.convert",
    "filter_rows": "tokenyard.converters.filter_rows",
    "load_config": "tokenyard.config",
    "merge": "tokenyard.converters.merge",
    "pack": "tokenyard.converters.pack",
    "split": "tokenyard.converters.split",
    "tokenize": "tokenyard.converters.tokenize",
    "verify": "tokenyard.converters.verify",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("tokenyard")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        raise MissingDependencyError(f"tokenyard.{name} needs torch: pip install 'tokenyard[torch]'") from e


def __dir__() -> list[str]:
    return __all__
