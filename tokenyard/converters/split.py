"""Split a corpus into parts, as for training and validation: each row goes into exactly one, chosen by a seed.

Row r goes where its place among the shuffled rows says: the first places are those of the first part, and so on; the
rest of the places are the rest. So parts are of exactly the size asked for, and a part keeps the order of the source.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.converters.job import OnProgress, TaskOutput, total_counts
from tokenyard.converters.picking import KEPT, LEFT, PickSettings, plan_picks
from tokenyard.converters.row_sums import RowSum, sum_of_corpus
from tokenyard.converters.run import Job, PartReport, run_job, run_part
from tokenyard.converters.workers import ExecutorName, Workers
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.errors import ConfigError, DestinationExistsError, TokenyardError, VerificationError
from tokenyard.manifest import HOME, MARKER_NAME, Manifest
from tokenyard.permutation import key, perm_inverses
from tokenyard.permutation.checks import check_int
from tokenyard.permutation.keyed import KEY_LIMIT
from tokenyard.rows import RowBatch

#: The purpose of the key.
_PURPOSE = 5
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, kw_only=True)
class SplitReport:
    """What splitting did: for each part its folder, rows, tokens and digest. ``rows_digest``: of all, in any order."""

    source: str
    destination: str
    format: str
    parts: Mapping[str, Mapping[str, Any]]
    rows_digest: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class SplitSettings(PickSettings):
    """What ``split`` is asked for; see there. Raises ConfigError."""

    parts: Mapping[str, float | int] = field(default_factory=lambda: {"validation": 0.01})
    rest: str = "train"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigError("parts: expected at least one part besides the rest, as in {validation: 0.01}")
        names: Sequence[object] = (*self.parts, self.rest)  # out of YAML, where 2024 is a number
        for name in names:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ConfigError(
                    f"parts: {name!r} is to be a folder's name, as text; use letters, digits, '_', '-' and '.', not at "
                    "the front"
                )
        if self.rest in self.parts:
            raise ConfigError(f"rest: {self.rest!r} is the name of a part already; choose another")
        for name, size in self.parts.items():
            is_share = isinstance(size, float) and 0 < size < 1
            if not is_share and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
                raise ConfigError(
                    f"parts: {name}: expected a share of the rows, between 0 and 1, or a number of rows, from 1 on; "
                    f"found {size!r}"
                )
        check_int("seed", self.seed, at_least=0, below=KEY_LIMIT)


def split(
    src: str | os.PathLike[str] | Corpus,
    dst: str | os.PathLike[str],
    *,
    parts: Mapping[str, float | int] | None = None,
    rest: str = "train",
    seed: int = 0,
    format: str | None = None,
    num_workers: int | None = None,
    executor: ExecutorName = "local",
    address: str | None = None,
    overwrite: bool = False,
    finish: bool = False,
    read: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> SplitReport:
    """Write each row of ``src`` into one of several corpora in the folder ``dst``, in the source's format unless given.

    ``parts``: for each part its share of the rows (0.01) or its number of rows (5000); ``{"validation": 0.01}`` unless
    given. All other rows go to ``rest``. ``seed`` chooses the rows; parts keep the order of the source. Each part is
    written in a pass over the source, and appears whole, one after another; an interrupted split goes on, and
    ``finish`` publishes what parts of the job have done; ``executor`` and ``address`` are as in ``convert``. The last
    one appears only when the sum of the digests of the rows of all parts is that of the source: nothing is lost, and
    nothing is in two.

    Raises ConfigError, VerificationError, DataError, SchemaError, DestinationExistsError, StorageError.
    """
    begun = time.monotonic()
    workers = Workers(num_workers=num_workers, executor=executor, address=address)
    settings = _settings(parts=parts, rest=rest, seed=seed, format=format, read=read, **options)
    source = settings.open(src)
    jobs = _jobs(source, settings, dst)
    done = _all_done(jobs, dst, overwrite)
    proof = _Proof(source, set(jobs))
    for name in done:
        proof.add(name, sum_of_corpus(open_corpus(_place(dst, name)), workers))
    manifests = dict(done)
    for name, job in jobs.items():
        if name not in done:
            manifests[name], _ = run_job(
                replace(job, check=proof.checked(name, job)),
                _place(dst, name),
                num_workers=num_workers,
                executor=executor,
                address=address,
                overwrite=overwrite,
                finish=finish,
                on_progress=on_progress,
            )
            if not proof.knows(name):  # interrupted in its last acts, when it had been proven
                proof.add(name, sum_of_corpus(open_corpus(_place(dst, name)), workers))
    return SplitReport(
        source=str(source.path),
        destination=os.fspath(dst),
        format=next(iter(jobs.values())).format.name,
        parts={name: _told(manifests[name], _place(dst, name)) for name in jobs},
        rows_digest=str(proof.whole()),
        seconds=time.monotonic() - begun,
    )


def split_part(
    src: str | os.PathLike[str] | Corpus,
    dst: str | os.PathLike[str],
    part: tuple[int, int],
    *,
    num_workers: int | None = None,
    executor: ExecutorName = "local",
    address: str | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
    **settings: Any,
) -> PartReport:
    """Do share K of N of the tasks of a split, as ``run_part`` does; ``split(finish=True)`` ends it."""
    found = _settings(**settings)
    source = found.open(src)
    jobs = _jobs(source, found, dst)
    done = _all_done(jobs, dst, overwrite)
    reports = [
        run_part(
            job,
            _place(dst, name),
            part,
            num_workers=num_workers,
            executor=executor,
            address=address,
            overwrite=overwrite,
            on_progress=on_progress,
        )
        for name, job in jobs.items()
        if name not in done
    ]
    return PartReport(
        destination=os.fspath(dst),
        part=f"{part[0]}/{part[1]}",
        num_tasks=sum(r.num_tasks for r in reports),
        num_rows=sum(r.num_rows for r in reports),
        num_tokens=sum(r.num_tokens for r in reports),
        num_open_tasks=sum(r.num_open_tasks for r in reports),
    )


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """The rows whose places among the shuffled ones lie in a range."""

    num_rows: int
    key: int
    places: range

    def keep(self, batch: RowBatch, first_row: int, counts: dict[str, int]) -> NDArray[np.bool_]:
        del counts
        found = perm_inverses(self.num_rows, self.key, np.arange(first_row, first_row + len(batch)))
        return (found >= self.places.start) & (found < self.places.stop)


def _settings(**given: Any) -> SplitSettings:
    return SplitSettings.of(**{name: value for name, value in given.items() if (name, value) != ("parts", None)})


def _jobs(source: Corpus, settings: SplitSettings, dst: str | os.PathLike[str]) -> dict[str, Job[range]]:
    """The job of each part, the rest first. Raises ConfigError."""
    if (Path(dst) / HOME).is_dir():
        raise ConfigError(f"{os.fspath(dst)}: a corpus is there, but split makes a folder of corpora; choose another")
    number = key(settings.seed, 0, _PURPOSE, 0)
    sizes = {n: round(len(source) * s) if isinstance(s, float) else s for n, s in settings.parts.items()}
    left = len(source) - sum(sizes.values())
    if left < 0:
        raise ConfigError(
            f"parts: {', '.join(f'{name} {size:,}' for name, size in sizes.items())} rows are more than the "
            f"{len(source):,} of {source.path}"
        )
    jobs, start = {}, 0
    for name, size in [*sizes.items(), (settings.rest, left)]:
        drawn = _Drawn(num_rows=len(source), key=number, places=range(start, start + size))
        said = {"seed": settings.seed, "part": name, "places": [start, start + size]}
        share = size / max(1, len(source))
        jobs[name] = plan_picks("split", source, drawn, settings, said, share=share, is_summed=True)
        start += size
    return {settings.rest: jobs.pop(settings.rest), **jobs}


def _place(dst: str | os.PathLike[str], name: str) -> str:
    return os.path.join(os.fspath(dst), name)


def _all_done(jobs: Mapping[str, Job[range]], dst: str | os.PathLike[str], overwrite: bool) -> dict[str, Manifest]:
    """The parts that need not be made, an earlier run having come so far. Raises DestinationExistsError."""
    _check_alone(jobs, dst)
    done = {name: found for name, job in jobs.items() if (found := _done(job, dst, name)) is not None}
    if len(done) < len(jobs):
        return done
    if overwrite:
        return {}
    raise DestinationExistsError(
        f"{os.fspath(dst)}: this split is there already; pass --overwrite (overwrite=True) to make it anew, or choose "
        "another destination"
    )


def _check_alone(jobs: Mapping[str, Job[range]], dst: str | os.PathLike[str]) -> None:
    """Refuse a folder in which another split left a part, whose rows would be in parts of this one too."""
    for there in sorted(Path(dst).glob(f"*/{HOME}")):
        made = None
        with suppress(TokenyardError):
            made = open_corpus(there.parent).manifest.provenance.get("job")
        if made == "split" and there.parent.name not in jobs:
            raise DestinationExistsError(
                f"{there.parent}: a part of another split is there, which may have rows that go to {' or '.join(jobs)} "
                "now; remove it, or choose another destination"
            )


def _done(job: Job[range], dst: str | os.PathLike[str], name: str) -> Manifest | None:
    """The manifest of a part that is there, and was made by this very job, which has ended."""
    try:
        corpus = open_corpus(_place(dst, name))
    except TokenyardError:
        return None
    found = corpus.manifest
    if corpus.folder.exists(MARKER_NAME):
        return None
    made = (found.format, found.schema, found.layout, dict(found.provenance))
    return found if made == (job.format.name, job.schema, job.layout, dict(job.provenance)) else None


class _Proof:
    """That the rows of all parts together are those of the source, whatever their order."""

    def __init__(self, source: Corpus, parts: set[str]) -> None:
        self._source = source
        self._parts = parts
        self._sums: dict[str, RowSum] = {}

    def knows(self, part: str) -> bool:
        """Whether the sum of a part is known."""
        return part in self._sums

    def add(self, part: str, found: RowSum) -> None:
        """Take the sum of a part."""
        self._sums[part] = found

    def whole(self) -> RowSum:
        """The sum of all parts that are known."""
        return sum(self._sums.values(), RowSum())

    def checked(self, part: str, job: Job[range]) -> Any:
        """The check of the job of a part: its own, and of all parts where this is the last."""

        def check(digests: Any, outputs: list[TaskOutput]) -> None:
            job.check(digests, outputs)
            counts = total_counts(outputs)
            kept, left = RowSum.of_counts(counts, KEPT), RowSum.of_counts(counts, LEFT)
            self.add(part, kept)
            if self._sums.keys() == self._parts and self.whole() != kept + left:
                there, here = kept + left, self.whole()
                raise VerificationError(
                    f"{self._source.path}: it has {there.num_rows} rows of digest {there}, but its parts "
                    f"{here.num_rows} of digest {here}; it was changed, or the disk lost data. {part} was "
                    "not published; split it again, elsewhere or with --overwrite"
                )

        return check


def _told(manifest: Manifest, place: str) -> dict[str, Any]:
    assert manifest.digests is not None
    return {
        "path": place,
        "rows": manifest.num_rows,
        "tokens": manifest.num_tokens,
        "digest": manifest.digests.tokens,
    }
