"""What a subclass of the suite says of its format, and how its tests write corpora."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tokenyard.corpus import Corpus, CorpusWriter, open_corpus
from tokenyard.formats.base import Format
from tokenyard.formats.registry import get_format
from tokenyard.rows import RowBatch
from tokenyard.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One set of writer's options that all tests run with."""

    name: str
    options: Mapping[str, Any]


class SuiteBase:
    """The attributes of a suite. ``format`` is the name that the format is registered under."""

    format: ClassVar[str]
    #: Options of the writer to run every test with, by a name for each set.
    options: ClassVar[Mapping[str, Mapping[str, Any]]] = {"defaults": {}}
    #: Whether the extents of a shard's tokens are maps of its file, in all variants or by the variant's name.
    expected_mapped: ClassVar[bool | Mapping[str, bool] | None] = None
    #: Whether only the manifest and the index know where rows begin, so that without them the tokens alone are left.
    rows_need_index: ClassVar[bool] = False

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run every test that takes a ``variant`` once for each set of options."""
        if "variant" in metafunc.fixturenames:
            variants = [Variant(name=name, options=options) for name, options in self.options.items()]
            metafunc.parametrize("variant", variants, ids=[v.name for v in variants])

    @pytest.fixture(autouse=True)
    def _alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every test has an index cache of its own, and waits for no disk."""
        monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "index cache"))
        monkeypatch.setattr(os, "fsync", lambda handle: None)

    @property
    def registered(self) -> Format:
        """The format under test."""
        return get_format(self.format)

    def write(self, path: Path, variant: Variant, schema: Schema, *batches: RowBatch, **more: Any) -> Corpus:
        """Write batches as a corpus and open it. ``more`` are arguments of CorpusWriter, in place of the variant's."""
        arguments = {**variant.options, **more}
        with CorpusWriter(path, format=self.format, schema=schema, **arguments) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return open_corpus(path)
