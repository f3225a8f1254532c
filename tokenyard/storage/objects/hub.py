"""``hf://datasets/OWNER/NAME@REVISION/FOLDER``: files of the Hugging Face Hub, by the addresses that it serves them at.

A revision is a commit, a branch, a tag, ``refs/pr/1`` or ``refs/convert/parquet``, where the Hub keeps a copy of each
data set in Parquet; ``~parquet``, as DuckDB writes it, is the same. The token comes from ``HF_TOKEN``, the server from
``HF_ENDPOINT``.
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tokenyard.errors import ConfigError
from tokenyard.storage.objects.info import ObjectInfo
from tokenyard.storage.objects.urls import Location

_ENDPOINT = "https://huggingface.co"
_KINDS = ("datasets", "models", "spaces")
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: Revisions whose names have slashes in them, and what follows.
_REFS = re.compile(r"(refs/(?:convert/[^/]+|pr/[0-9]+))(?:/(.*))?")
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')
_MAX_PAGES = 10_000


def commit_of(url: str, at: Location, timeout: float) -> str | None:
    """The commit that the branch or tag of a URL is at now; None where the server knows of none.

    What is read by it stays the same while the branch moves. Raises OSError of what may pass, ConfigError for a URL of
    another form.
    """
    kind, repository, revision, _ = _parts(url, at)
    if _COMMIT.fullmatch(revision):
        return revision
    try:
        told = _asked(f"{_endpoint()}/api/{kind}/{repository}/revision/{quote(revision, safe='')}", timeout)[0]
    except urllib.error.HTTPError as e:
        if (e.code >= 500 and e.code != 501) or e.code == 429:
            raise
        return None  # what is wrong is told of the first file; mirrors may not have revisions
    except ValueError:  # a page in place of JSON
        return None
    commit = told.get("sha") if isinstance(told, dict) else None
    return commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else None


def at_commit(url: str, at: Location, commit: str) -> str:
    """The URL of what a URL's branch or tag has at a commit. Raises ConfigError for a URL of another form."""
    kind, repository, _, folder = _parts(url, at)
    return f"hf://{kind}/{repository}@{commit}" + (f"/{quote(folder, safe='/@')}" if folder else "")


def resolve(url: str, at: Location, commit: str | None) -> tuple[str, dict[str, str], str]:
    """The address below which the files lie, the headers of each request, and the folder of the URL.

    Raises ConfigError for a URL of another form.
    """
    kind, repository, revision, folder = _parts(url, at)
    middle = "" if kind == "models" else f"{kind}/"
    base = f"{_endpoint()}/{middle}{repository}/resolve/{quote(commit or revision, safe='')}"
    return base, _headers(), folder


def list_files(url: str, at: Location, commit: str | None, prefix: str, timeout: float) -> list[ObjectInfo]:
    """All files below a folder of the repository; their names in it. Raises OSError, ConfigError."""
    kind, repository, revision, _ = _parts(url, at)
    tree = f"{_endpoint()}/api/{kind}/{repository}/tree/{quote(commit or revision, safe='')}"
    page: str | None = (
        f"{tree}/{quote(prefix)}?recursive=true&expand=true" if prefix else f"{tree}?recursive=true&expand=true"
    )
    found: list[ObjectInfo] = []
    for _ in range(_MAX_PAGES):
        if page is None:
            break
        entries, page = _asked(page, timeout)
        found += [_info(entry) for entry in entries if entry.get("type") == "file"]
    return found


def _asked(address: str, timeout: float) -> tuple[Any, str | None]:
    """The JSON at an address, and the address of what follows it. Raises OSError."""
    request = urllib.request.Request(address, headers=_headers())
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            link = _NEXT.search(answer.headers.get("Link") or "")
            return json.load(answer), link.group(1) if link else None
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as e:
        raise ConnectionError(str(e.reason)) from e


def _info(entry: dict[str, Any]) -> ObjectInfo:
    # Large files are known by the hash of their bytes, others by that of their blob in git.
    etag = (entry.get("lfs") or {}).get("oid") or entry["oid"]
    changed = (entry.get("lastCommit") or {}).get("date")
    modified = int(datetime.fromisoformat(changed).timestamp() * 1e9) if changed else 0
    return ObjectInfo(name=entry["path"], bytes=entry["size"], etag=f'"{etag}"', modified_ns=modified)


def _parts(url: str, at: Location) -> tuple[str, str, str, str]:
    parts = at.prefix.split("/")
    if at.root not in _KINDS or len(parts) < 2 or not all(parts[:2]):
        raise ConfigError(f"{url}: expected hf://datasets/OWNER/NAME@REVISION/FOLDER ('@REVISION' may be left out)")
    owner, (name, _, revision) = parts[0], parts[1].partition("@")
    folder = "/".join(parts[2:])
    if refs := _REFS.fullmatch(f"{revision}/{folder}"):
        revision, folder = refs[1], refs[2] or ""
    elif revision.startswith("~"):
        revision = f"refs/convert/{revision[1:]}"
    return at.root, f"{quote(owner)}/{quote(name)}", revision or "main", folder


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", _ENDPOINT).rstrip("/")


def _headers() -> dict[str, str]:
    token = os.environ.get("HF_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}
