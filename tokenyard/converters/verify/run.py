"""The verification as a whole."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from tokenyard.converters.job import OnProgress
from tokenyard.converters.verify.against import compare
from tokenyard.converters.verify.beside import check_beside
from tokenyard.converters.verify.full import Checked, full_check, quick_check
from tokenyard.converters.verify.meter import Meter
from tokenyard.converters.verify.opened import open_to_verify
from tokenyard.converters.verify.quarantine import write_good_part
from tokenyard.converters.verify.reference import check_python, compare_with_reference
from tokenyard.converters.verify.report import Problem, VerifyReport, bad_shards
from tokenyard.converters.verify.unordered import compare_unordered
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.corpus.locating import is_remote
from tokenyard.digest import Digests
from tokenyard.errors import ConfigError, DestinationExistsError, StorageError, VerificationError
from tokenyard.manifest import MANIFEST_NAME, FileInfo

_QUICK = (
    "no shard was decoded: bytes that changed in a file of the right size, and shards of one size that were exchanged, "
    "are found by the full verification alone"
)


def verify(
    path: str | os.PathLike[str] | Corpus,
    *,
    quick: bool = False,
    against: str | os.PathLike[str] | Corpus | None = None,
    unordered: bool = False,
    reference: bool = False,
    python: str | os.PathLike[str] | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    num_workers: int = 1,
    read: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
) -> VerifyReport:
    """Check a corpus. Problems with the data are reported, shard by shard, not raised.

    In full, the default: every file has its size and checksum, every row decodes, its ids are below 2^32 and below the
    schema's ``vocab_size`` if it has one, and the rows' digest is the manifest's. ``quick``: the manifest, the sizes of
    all files and the row indexes, without decoding a shard. Files with a shard's suffix that the manifest doesn't name
    are told either way, in a folder that tokenyard made.

    Args:
        path: the corpus.
        quick: see above.
        against: another corpus, in any format, that must hold the same rows. It is read too where it has another
            digest, to name the first row that differs; ``quick`` compares the digests of the manifests.
        unordered: the rows of ``against`` may come in any order: both are read, and the sums of the digests of their
            rows compared.
        reference: read every shard with the official library of its format too, and compare each token and field.
        python: the interpreter of an environment that has that library; this one's when not given.
        quarantine: where to make a corpus of the good part, if something is damaged: all shards that are whole, as
            links where the file system has them. It must not exist.
        num_workers: processes.
        read: options of ``open_corpus``, for a corpus that others made.
        on_progress: called with a Progress now and then.

    Raises:
        ConfigError: ``quick`` with ``reference``, ``quarantine`` or ``unordered``, which read shards; ``python`` or
            ``unordered`` alone; ``reference`` or ``quarantine`` of a URL.
        MissingDependencyError: the official library isn't there; says what to install.
        DestinationExistsError: something lies at ``quarantine`` already.
        NotACorpusError, IncompleteCorpusError, StorageError: as ``open_corpus`` does.
    """
    begun = time.monotonic()
    interpreter = _checked(quick, reference, python, quarantine)
    if unordered and (against is None or quick):
        raise ConfigError("unordered says how to compare with against, and reads both: give against, and not quick")
    other = against if against is None or isinstance(against, Corpus) else open_corpus(against)
    opened = open_to_verify(path, dict(read or {}))
    corpus, meter = opened.corpus, Meter(on_progress)
    if corpus is not None and (reference or quarantine is not None) and not corpus.folder.asks_cheaply:
        which = "reference" if reference else "quarantine"
        raise ConfigError(f"{corpus.path}: {which} works on files of this machine; copy the corpus to a disk")
    notes = [*opened.notes, *([_QUICK] if quick else [])]
    problems = list(opened.problems)
    checked: Checked | None = None
    library = loss = promised = None
    files: tuple[FileInfo, ...] = ()
    if corpus is not None:
        library = check_python(corpus.format, interpreter) if reference else None
        meter.total = corpus.num_tokens * (2 if reference else 1)
        files = corpus.manifest.all_files
        problems += check_beside(corpus, files)
        promised = corpus.manifest.digests
        if quick:
            problems += quick_check(corpus, num_workers, meter)
        else:
            checked = full_check(corpus, num_workers, meter)
            problems += [*checked.problems, *_hold_to_digest(corpus, checked, notes)]
        if other is not None and unordered:
            meter.total += other.num_tokens
            problems += compare_unordered(corpus, other, num_workers, meter)
        elif other is not None:
            found, promised = _compare(corpus, checked, other, num_workers, meter, notes)
            problems += found
        if reference:
            try:
                found, more = compare_with_reference(
                    corpus, interpreter, bad_shards(tuple(problems)), num_workers, meter
                )
            except VerificationError as e:
                found, more = [Problem(message=f"not compared with {library}: {e}", is_damage=False)], []
            problems += found
            notes += more
        if quarantine is not None and any(p.is_damage for p in problems):
            if any(p.file == MANIFEST_NAME for p in problems):
                notes.append(f"nothing was written to {quarantine}: which shards are wrong can't be told")
            else:
                bad = bad_shards(tuple(problems))
                try:
                    loss = write_good_part(corpus, bad, opened.left_out, quarantine, num_workers)
                except (VerificationError, StorageError) as e:  # after what was found is told
                    problems.append(Problem(message=f"no good part was made: {e}", is_damage=False))
    digests = checked.digests if checked else None
    return VerifyReport(
        path=str(opened.path),
        mode="quick" if quick else "full",
        against=None if other is None else str(other.path),
        reference=library,
        num_files=len(files),
        num_shards=len(corpus.manifest.shards) if corpus else 0,
        num_rows=len(corpus) if corpus else 0,
        num_tokens=corpus.num_tokens if corpus else 0,
        digest=digests.tokens if digests else None,
        expected_digest=promised.tokens if promised else None,
        problems=tuple(problems),
        notes=tuple(notes),
        quarantine=loss,
        seconds=time.monotonic() - begun,
    )


def _checked(quick: bool, reference: bool, python: Any, quarantine: Any) -> str:
    """The interpreter to use, once the arguments fit together."""
    if quick and (reference or quarantine is not None):
        which = "reference" if reference else "quarantine"
        raise ConfigError(f"{which} needs every shard read, which quick doesn't do; leave one of the two out")
    if python is not None and not reference:
        raise ConfigError("python names the environment of the official library; it goes with reference")
    if quarantine is not None and is_remote(quarantine):
        raise ConfigError(
            f"{quarantine}: the good shards are linked there, so it is a folder of this machine; name one"
        )
    if quarantine is not None and os.path.lexists(quarantine):
        raise DestinationExistsError(
            f"{quarantine}: something is there already; choose another place for the good part"
        )
    return os.fspath(python) if python is not None else sys.executable


def _hold_to_digest(corpus: Corpus, checked: Checked, notes: list[str]) -> list[Problem]:
    """Compare the digest of rows that could all be read with the one that the manifest promises."""
    promised = corpus.manifest.digests
    if promised is None or checked.digests is None:
        return []
    found = promised.differences(checked.digests)
    damaged = any(p.shard is not None for p in checked.problems)
    if not found and damaged:
        notes.append("the rows still have the digest of the manifest: what changed are bytes outside of them")
    if not found or damaged:
        return []
    message = (
        f"{corpus.folder.at(MANIFEST_NAME)}: every file is as the manifest says, but the rows differ from the "
        f"manifest's digest ({'; '.join(found)}): the manifest was changed, its digest or the order of its shards; "
        "restore it"
    )
    return [Problem(message=message, file=MANIFEST_NAME)]


def _compare(
    corpus: Corpus, mine: Checked | None, other: Corpus, num_workers: int, meter: Meter, notes: list[str]
) -> tuple[list[Problem], Digests | None]:
    """How the rows differ from those of another corpus, and the digests of that one."""
    here, there = mine.digests if mine else corpus.manifest.digests, other.manifest.digests
    problems: list[Problem] = []
    theirs: Checked | None = None
    if mine is not None and (here is None or there is None or here.differences(there)):
        meter.total += other.num_tokens
        theirs = full_check(other, num_workers, meter)
        there = theirs.digests
        problems = [Problem(message=f"{other.path}: {p}", is_damage=False) for p in theirs.problems]
    elif here is None or there is None:
        notes.append(f"{corpus.path if here is None else other.path} has no digest, so that quick can't compare it")
    told = here.differences(there) if here and there else []
    problems += [Problem(message=f"differs from {other.path}: {d}", is_damage=False) for d in told]
    if mine is not None and theirs is not None and (told or here is None or there is None):
        problems += compare(corpus, mine, other, theirs)
    return problems, there
