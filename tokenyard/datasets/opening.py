"""From settings to the dataset: one corpus, or several as a mixture."""

from typing import Any

from tokenyard.config import TrainConfig
from tokenyard.config.reading import ReadConfig
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.mixture_dataset import MixtureDataset
from tokenyard.datasets.transforms import Transform


def open_dataset(settings: TrainConfig, transform: Transform | None = None) -> TokenDataset:
    """Open `data.path`, or `data.sources` as a MixtureDataset.

    `transform` is done to each sample (see `Transform`). The sources of a mixture share `loader.cache_bytes` equally.

    Raises:
        ConfigError: names the key that doesn't fit the corpus, or sources that don't fit each other.
        StorageError: a corpus can't be read, or is not whole.
        DataError: what it holds is damaged.
    """
    data, cache_bytes = settings.data, settings.loader.cache_bytes
    options: dict[str, Any] = {**data.sample.model_dump(), "transform": transform, "seed": settings.order.seed}
    if data.sources is None:
        return TokenDataset(_open(data.path or [], data, cache_bytes), **options)
    share = cache_bytes // len(data.sources)
    return MixtureDataset(
        {source.name: _open(source.path, source, share) for source in data.sources},
        **options,
        allow_different_tokenizers=data.allow_different_tokenizers,
    )


def _open(path: str | list[str], read: ReadConfig, cache_bytes: int) -> Corpus:
    return open_corpus(
        path,
        format=read.format,
        read=read.read,
        cache_bytes=cache_bytes,
        tokens=read.tokens,
        token_dtype=read.token_dtype,
        fields=None if read.fields is None else tuple(read.fields),
        split=read.split,
    )
