"""Whether the files of a corpus are there and whole: quickly, or every byte of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tokenyard.converters.job import OnProgress
from tokenyard.converters.verify import Problem, verify
from tokenyard.converters.verify.beside import check_beside
from tokenyard.converters.verify.opened import has_manifest
from tokenyard.converters.verify.shards import check_file, check_outside
from tokenyard.corpus import Corpus
from tokenyard.display.quantities import with_unit
from tokenyard.looking.lengths import spread_shards
from tokenyard.preflight.report import Line, failed, passed, warned

#: Shards whose files and row indexes are looked at, unless all are; a remote one costs requests.
_LOCAL_SHARDS, _REMOTE_SHARDS = 256, 64
#: Bytes of shards on a disk that are read to compare their checksums, unless all are.
_READ_BYTES = 256 << 20
#: Problems that are told; `tokenyard verify` tells all.
_TOLD = 3


def shards_line(corpus: Corpus, source: str | None, *, full: bool, on_progress: OnProgress | None = None) -> Line:
    """Look at files, sizes, row indexes and checksums. What is wrong is told, not raised."""
    if full:
        report = verify(corpus, on_progress=on_progress)
        return _line(corpus, source, list(report.problems), f"{_all(report.num_shards)}, every byte and row")
    count = len(corpus.manifest.shards)
    looked = spread_shards(corpus, _LOCAL_SHARDS if corpus.folder.asks_cheaply else _REMOTE_SHARDS)
    problems = check_beside(corpus, corpus.manifest.all_files)
    problems += check_outside(corpus, looked)
    missing = {problem.shard for problem in problems}
    read, num_bytes = [], 0
    for shard in _to_read(corpus):
        files = corpus.manifest.shards[shard].files
        if shard not in missing and all(file.checksum is not None for file in files):
            found = (check_file(corpus, file, shard) for file in files)
            problems += [problem for problem in found if problem is not None]
            read.append(shard)
            num_bytes += sum(file.bytes for file in files)
    of = _all(count) if len(looked) == count else f"{len(looked):,} of {count:,} shards"
    sums = f"checksums of {len(read):,} ({with_unit(num_bytes, 'bytes')})" if read else "no checksum was compared"
    return _line(corpus, source, problems, f"files, sizes and row indexes of {of}, {sums}")


def _line(corpus: Corpus, source: str | None, problems: list[Problem], looked: str) -> Line:
    path = shlex.quote(str(corpus.path))
    if problems:
        told = "; ".join(str(problem) for problem in problems[:_TOLD])
        more = f"; and {len(problems) - _TOLD:,} more" if len(problems) > _TOLD else ""
        return failed(
            "shards",
            f"{told}{more} (looked at: {looked})",
            f"restore these files; tokenyard verify {path} tells all that is wrong, and --quarantine keeps the rest",
            source=source,
        )
    if not has_manifest(corpus):
        return warned(
            "shards",
            f"{looked}; others made it, so there are no checksums: a changed byte can't be seen"
            + ("" if corpus.format == "mds" else ", nor a lost shard"),
            f"tokenyard index {path} writes down what is there now",
            source=source,
        )
    return passed("shards", looked, source=source)


def _to_read(corpus: Corpus) -> Iterator[int]:
    """Shards on a disk, evenly spread, of as many bytes as are read."""
    sizes = corpus.manifest.bytes_of_shards
    if not corpus.folder.asks_cheaply or not len(sizes):
        return
    total = int(sizes.sum())
    wanted = len(sizes) if total <= _READ_BYTES else max(1, len(sizes) * _READ_BYTES // total)
    left = _READ_BYTES
    for shard in spread_shards(corpus, wanted):
        if int(sizes[shard]) <= left:
            left -= int(sizes[shard])
            yield shard


def _all(count: int) -> str:
    return "the one shard" if count == 1 else f"all {count:,} shards"
