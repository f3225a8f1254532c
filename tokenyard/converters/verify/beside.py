"""Checks of what lies beside the shards: files of the native layout, and files that nobody knows of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from tokenyard.converters.verify.opened import is_own
from tokenyard.converters.verify.report import Problem
from tokenyard.converters.verify.shards import check_file
from tokenyard.corpus import Corpus
from tokenyard.formats.registry import get_format
from tokenyard.manifest import FileInfo


def check_beside(corpus: Corpus, files: Sequence[FileInfo]) -> list[Problem]:
    """Sizes and checksums of the native layout's own files, and files that would be taken for shards.

    ``files``: all that the manifest names.
    """
    problems = [check_file(corpus, file, None) for file in corpus.manifest.files]
    return [p for p in problems if p is not None] + _strangers(corpus, files)


def _strangers(corpus: Corpus, files: Sequence[FileInfo]) -> list[Problem]:
    """Files with the suffix of shards that the manifest doesn't name; of folders that tokenyard made, on a disk."""
    if not is_own(corpus) or not corpus.folder.asks_cheaply or not corpus.folder.path.is_dir():
        return []
    suffix = get_format(corpus.format).suffix
    known = {file.name for file in files}
    found = [n for n in corpus.folder.list() if n not in known and suffix in PurePosixPath(n).suffixes]
    # StreamingDataset unpacks x.mds.zstd to x.mds where it lies.
    unpacked = {name.rpartition(".")[0] for name in known} if found else set()
    return [
        Problem(
            message=f"{corpus.folder.at(name)}: the manifest doesn't name it, but tools that read the folder file by "
            "file would take it for a shard; move it away",
            file=name,
        )
        for name in found
        if name not in unpacked
    ]
