"""The store of obstore that a URL leads to. Credentials and endpoints: from the environment, as obstore reads it."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tokenyard.errors import ConfigError, MissingDependencyError
from tokenyard.storage.objects import hub
from tokenyard.storage.objects.patience import Patience
from tokenyard.storage.objects.urls import Location

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_CONNECTIONS_IDLE_SECONDS = 30
_memory: dict[str, Any] = {}
_lock = threading.Lock()


def require(url: str) -> None:
    """Raise MissingDependencyError where obstore is not installed."""
    try:
        import obstore  # noqa: F401
    except ModuleNotFoundError as e:
        raise MissingDependencyError(f"{url} needs obstore: pip install 'tokenyard[cloud]'") from e


def make_store(
    url: str, at: Location, patience: Patience, *, commit: str | None = None, own_retries: bool = False
) -> tuple[ObjectStore, str]:
    """A store, and the prefix of all names in it. Raises ConfigError, MissingDependencyError.

    ``commit``: see ``hub``. ``own_retries``: obstore tries the requests of a call again by itself.
    """
    require(url)
    from obstore import store as stores
    from obstore.exceptions import BaseError

    options: dict[str, Any] = {
        "timeout": timedelta(seconds=patience.attempt_seconds),
        "connect_timeout": timedelta(seconds=patience.stall_seconds),
        "read_timeout": timedelta(seconds=patience.stall_seconds),
        "pool_idle_timeout": timedelta(seconds=_CONNECTIONS_IDLE_SECONDS),
        "user_agent": "tokenyard",
        # Only where the endpoint itself says http://.
        "allow_http": True,
    }
    retries: Any = {"max_retries": patience.attempts - 1 if own_retries else 0}
    retries["retry_timeout"] = timedelta(seconds=patience.deadline)
    retries["backoff"] = {
        "init_backoff": timedelta(seconds=patience.first_pause),
        "max_backoff": timedelta(seconds=patience.longest_pause),
        "base": 2,
    }
    given: Any = {"client_options": options, "retry_config": retries}
    try:
        if at.scheme == "s3":
            return stores.S3Store(at.root, **given), at.prefix
        if at.scheme == "gs":
            return stores.GCSStore(at.root, **given), at.prefix
        if at.scheme == "az":
            return stores.AzureStore(at.root, **given), at.prefix
        if at.scheme == "hf":
            base, headers, prefix = hub.resolve(url, at, commit)
            options["default_headers"] = headers
            return stores.HTTPStore.from_url(base, **given), prefix
        if at.scheme in ("http", "https"):
            return stores.HTTPStore.from_url(f"{at.scheme}://{at.root}", **given), at.prefix
    except ConfigError:
        raise
    except (ValueError, BaseError) as e:
        raise ConfigError(f"{url}: {str(e).splitlines()[0]}") from e
    with _lock:
        return _memory.setdefault(at.root, stores.MemoryStore()), at.prefix
