"""URLs of object stores, and how they are told from local paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from tokenyard.errors import ConfigError

#: What each scheme leads to.
SCHEMES = {
    "s3": "Amazon S3, and all that speak its protocol: s3://BUCKET/FOLDER",
    "gs": "Google Cloud Storage: gs://BUCKET/FOLDER",
    "az": "Azure Blob Storage: az://CONTAINER/FOLDER",
    "hf": "the Hugging Face Hub, to read: hf://datasets/OWNER/NAME@REVISION/FOLDER",
    "http": "a web server, to read: http://HOST/FOLDER",
    "https": "a web server, to read: https://HOST/FOLDER",
    "memory": "the memory of this process, for tests: memory://NAME/FOLDER",
    "file": "a local folder: file:///FOLDER",
}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, kw_only=True)
class Location:
    """A URL in its parts. ``root``: a bucket, a container, a server; ``prefix``: the folder in it, without slashes."""

    scheme: str
    root: str
    prefix: str


def is_url(path: object) -> bool:
    """Whether a path is a URL and no local path."""
    return isinstance(path, str) and _URL.match(path) is not None


def split_url(url: str) -> Location:
    """A URL in its parts. Raises ConfigError for a scheme that nobody knows, and for one without a bucket."""
    found = _URL.match(url)
    scheme = found.group(1).lower() if found else ""
    if scheme not in SCHEMES:
        raise ConfigError(
            f"{_bare(url)}: no scheme is called {scheme or 'that'}; known are {', '.join(f'{s}://' for s in SCHEMES)}, "
            "and paths of this machine"
        )
    try:
        parts = urlsplit(url)
    except ValueError as e:
        raise ConfigError(f"{_bare(url)}: {e}; expected {_form(scheme)}") from e
    if scheme != "file" and not parts.netloc:
        raise ConfigError(f"{_bare(url)}: names no bucket; expected {_form(scheme)}")
    if parts.query or parts.fragment or parts.password:
        raise ConfigError(
            f"{_bare(url)}: a URL of a corpus has no query, no fragment and no password; credentials come from the "
            "environment"
        )
    prefix = unquote(parts.path).strip("/")
    if scheme != "file" and prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/")):
        raise ConfigError(f"{url}: names of objects have no '//', '.' or '..'; write the whole path, without them")
    return Location(scheme=scheme, root=parts.netloc, prefix=prefix)


def _form(scheme: str) -> str:
    return SCHEMES[scheme].split(": ", 1)[1]


def _bare(url: str) -> str:
    """A URL without what may be secret in it: a user with a password, a query, a fragment."""
    scheme, colon, rest = re.split(r"[?#]", url, maxsplit=1)[0].partition("://")
    root, slash, path = rest.partition("/")
    return f"{scheme}{colon}{root.rpartition('@')[2]}{slash}{path}"
