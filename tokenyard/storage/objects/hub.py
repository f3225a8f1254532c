"""``hf://datasets/OWNER/NAME@REVISION/FOLDER``: files of the Hugging Face Hub, by the addresses that it serves them at.

The token comes from ``HF_TOKEN``, the server from ``HF_ENDPOINT``.
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
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')
_MAX_PAGES = 10_000


def resolve(url: str, at: Location) -> tuple[str, dict[str, str], str]:
    """The address below which the files lie, the headers of each request, and the folder of the URL.

    Raises ConfigError for a URL of another form.
    """
    kind, repository, revision, folder = _parts(url, at)
    middle = "" if kind == "models" else f"{kind}/"
    base = f"{_endpoint()}/{middle}{repository}/resolve/{quote(revision, safe='')}"
    return base, _headers(), folder


def list_files(url: str, at: Location, prefix: str, timeout: float) -> list[ObjectInfo]:
    """All files below a folder of the repository; their names in it. Raises OSError, ConfigError."""
    kind, repository, revision, _ = _parts(url, at)
    tree = f"{_endpoint()}/api/{kind}/{repository}/tree/{quote(revision, safe='')}"
    page: str | None = (
        f"{tree}/{quote(prefix)}?recursive=true&expand=true" if prefix else f"{tree}?recursive=true&expand=true"
    )
    found: list[ObjectInfo] = []
    for _ in range(_MAX_PAGES):
        if page is None:
            break
        request = urllib.request.Request(page, headers=_headers())
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                entries = json.load(answer)
                link = _NEXT.search(answer.headers.get("Link") or "")
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError as e:
            raise ConnectionError(str(e.reason)) from e
        page = link.group(1) if link else None
        found += [_info(entry) for entry in entries if entry.get("type") == "file"]
    return found


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
    return at.root, f"{quote(owner)}/{quote(name)}", revision or "main", "/".join(parts[2:])


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", _ENDPOINT).rstrip("/")


def _headers() -> dict[str, str]:
    token = os.environ.get("HF_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}
