"""The keys of the settings that must change, as YAML to put into the job's file."""

from __future__ import annotations

from typing import Any

import yaml

from tokenyard.config import LoaderConfig


def changed(configured: LoaderConfig, chosen: LoaderConfig) -> dict[str, Any]:
    """Return the keys of `loader` that differ, with their new values. Threads don't count beside workers."""
    before, after = configured.model_dump(), chosen.model_dump()
    found = {name: value for name, value in after.items() if before[name] != value}
    if chosen.num_workers:
        found.pop("num_threads", None)
    return found


def as_yaml(keys: dict[str, Any]) -> str:
    """Return them under `loader:`, empty where there are none."""
    return yaml.safe_dump({"loader": keys}, sort_keys=False).rstrip() if keys else ""


def in_words(loader: LoaderConfig) -> str:
    """Return how a loader reads ahead, as its keys say it."""
    how = f"num_workers: {loader.num_workers}" if loader.num_workers else f"num_threads: {loader.num_threads}"
    return how if loader.prefetch_factor is None else f"{how}, prefetch_factor: {loader.prefetch_factor}"
