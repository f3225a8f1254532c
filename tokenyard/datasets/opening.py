"""From settings to the dataset: one corpus, or several as a mixture."""

from pathlib import Path
from typing import Any

from tokenyard.config import TrainConfig
from tokenyard.config.reading import ReadConfig
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.corpus.locating import is_remote
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.mixture_dataset import MixtureDataset
from tokenyard.datasets.transforms import Transform
from tokenyard.errors import ConfigError
from tokenyard.storage.cache import DiskCache
from tokenyard.storage.user_cache import cache_folder


def open_dataset(settings: TrainConfig, transform: Transform | None = None) -> TokenDataset:
    """Open `data.path`, or `data.sources` as a MixtureDataset.

    `transform` is done to each sample (see `Transform`). The sources of a mixture share `loader.cache_bytes` equally.

    Raises:
        ConfigError: names the key that doesn't fit the corpus, or sources that don't fit each other.
        StorageError: a corpus can't be read, or is not whole.
        DataError: what it holds is damaged.
    """
    data, cache_bytes, disk = settings.data, settings.loader.cache_bytes, _disk_cache(settings)
    options: dict[str, Any] = {**data.sample.model_dump(), "transform": transform, "seed": settings.order.seed}
    if data.sources is None:
        return TokenDataset(_open(data.path or [], data, cache_bytes, disk), **options)
    share = cache_bytes // len(data.sources)
    return MixtureDataset(
        {source.name: _open(source.path, source, share, disk) for source in data.sources},
        **options,
        allow_different_tokenizers=data.allow_different_tokenizers,
    )


def _disk_cache(settings: TrainConfig) -> DiskCache | None:
    """The cache that corpora at URLs are read through, if settings name one. Raises ConfigError, StorageError."""
    cache, data = settings.loader.cache, settings.data
    if cache is None:
        return None
    named = [data.path] if data.sources is None else [source.path for source in data.sources]
    paths = [path for one in named for path in ([one] if isinstance(one, str) else one or [])]
    if not any(is_remote(path) for path in paths):
        raise ConfigError(
            f"loader.cache keeps what comes from URLs, but {paths[0] if paths else 'data.path'} is on a disk of this "
            "machine; leave loader.cache out"
        )
    home = Path(cache.path) if cache.path is not None else None
    if home is None:
        if (user := cache_folder()) is None:
            raise ConfigError("loader.cache.path: there is no home folder to keep a cache in; name a folder")
        home = user / "streaming"
    return DiskCache(home, cache.bytes)


def _open(path: str | list[str], read: ReadConfig, cache_bytes: int, disk: DiskCache | None) -> Corpus:
    corpus = open_corpus(
        path,
        format=read.format,
        read=read.read,
        cache_bytes=cache_bytes,
        tokens=read.tokens,
        token_dtype=read.token_dtype,
        fields=None if read.fields is None else tuple(read.fields),
        split=read.split,
    )
    if disk is not None:
        corpus.read_through(disk)
    return corpus
