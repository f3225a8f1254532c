"""Tests of corpora have an index cache of their own, and wait for no disk."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def alone(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the index cache."""
    cache = tmp_path_factory.mktemp("index-cache")
    monkeypatch.setenv("TOKENYARD_CACHE", str(cache))
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    return cache
