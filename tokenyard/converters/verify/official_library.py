"""A script that reads shards with the official library of a format, run in an environment that has it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenyard.errors import ConfigError, MissingDependencyError, VerificationError
from tokenyard.rows import Array, Offsets
from tokenyard.storage.temporary import temporary_folder

SCRIPTS = Path(__file__).parent / "reference_scripts"
#: Seconds in which a script says nothing, and is given up: importing a library can take a minute.
_SILENCE_S = 600.0
_READ_BYTES = 1 << 20
_SHOWN_LINES = 12


@dataclass(frozen=True, kw_only=True)
class Library:
    """An official library, and the script that reads with it."""

    title: str
    script: str


LIBRARIES = {
    "mds": Library(title="mosaicml-streaming", script="streaming_mds.py"),
    "webdataset": Library(title="webdataset", script="webdataset_tar.py"),
    "parquet": Library(title="pyarrow", script="pyarrow_parquet.py"),
    "npy": Library(title="numpy", script="numpy_npy.py"),
    "jsonl": Library(title="json of Python", script="json_lines.py"),
    "csv": Library(title="csv of Python", script="csv_tables.py"),
}


#: Packages by their module, where these are not named alike.
_PACKAGES = {"streaming": "mosaicml-streaming"}


@dataclass(frozen=True, kw_only=True)
class Values:
    """A column of rows as a library gave it: items flat, items a row, which rows are not null; where it says these."""

    items: Array
    lengths: Offsets | None
    valid: Array | None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The next rows of a shard: each column, or in words what it is where it can't be compared."""

    shard: int
    count: int
    columns: Mapping[str, Values | str]


@dataclass(frozen=True, kw_only=True)
class End:
    """The end of a shard, or the error by which the library ended it."""

    shard: int
    error: str | None


def library_of(format: str) -> Library:
    """The official library of a format. Raises ConfigError for a format that has none here."""
    if format not in LIBRARIES:
        raise ConfigError(f"format {format} has no official library to read with; there are {', '.join(LIBRARIES)}")
    return LIBRARIES[format]


def ask_version(format: str, python: str) -> str:
    """The library and its version in the environment of ``python``. Raises as ``read`` does."""
    job = {"path": os.getcwd(), "fields": {}, "shards": []}
    (version,) = _messages(format, python, job, f"asked of {python}")
    return f"{library_of(format).title} {version}"


def read(format: str, python: str, folder: Path, fields: Mapping[str, str], shards: Sequence[Any]) -> Iterator[Any]:
    """Yield Rows and End of each of ``shards``, as the library of a format reads them.

    Raises MissingDependencyError, ConfigError for an interpreter that can't be run, VerificationError when the process
    fails.
    """
    job = {"path": str(folder.resolve()), "fields": dict(fields), "shards": list(shards)}
    messages = _messages(format, python, job, str(folder))
    next(messages)
    yield from messages


def _messages(format: str, python: str, job: Mapping[str, Any], what: str) -> Iterator[Any]:
    library = library_of(format)
    python = os.path.abspath(python) if os.sep in python else python
    with tempfile.TemporaryDirectory(
        prefix="tokenyard-reference-", dir=temporary_folder(), ignore_cleanup_errors=True
    ) as home:
        errors = Path(home, "errors")
        with open(errors, "wb") as stderr, open(Path(home, "job"), "w+b") as told:
            told.write(json.dumps(job).encode())
            told.seek(0)
            try:
                process = subprocess.Popen(
                    [python, "-I", str(SCRIPTS / library.script)],
                    stdin=told,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    cwd=home,
                    env=_environment(home),
                    start_new_session=True,
                )
            except OSError as e:
                raise ConfigError(
                    f"--python: {python} can't be run ({e.strerror or e}); give the interpreter of an environment that "
                    f"has {library.title}, as venv/bin/python"
                ) from e
        try:
            yield from _Frames(process, f"{library.title}, {what}", errors).messages(library, python)
        finally:
            _end(process)


class _Frames:
    """What a script says on its standard output; see ``reference_scripts/common.py``."""

    def __init__(self, process: subprocess.Popen[bytes], what: str, errors: Path) -> None:
        assert process.stdout is not None
        self._process, self._what, self._errors = process, what, errors
        self._handle = process.stdout.fileno()
        self._held = bytearray()

    def messages(self, library: Library, python: str) -> Iterator[Any]:
        """The version, then Rows and Ends."""
        is_first = True
        while (line := self._line()) is not None:
            try:
                head = json.loads(line)
            except ValueError:
                raise VerificationError(f"{self._what}: expected a frame, found {line!r:.80}") from None
            is_first = False
            if "missing" in head:
                module = head["missing"]
                package = _PACKAGES.get(module, module)
                raise MissingDependencyError(
                    f"{python} has no module {module!r}, which reading with {library.title} needs: install {package} "
                    f"there ({python} -m pip install {package}), or name another environment with --python"
                )
            if "version" in head:
                yield head["version"]
            elif "rows" in head:
                columns = {name: self._column(dtype, sizes) for name, dtype, *sizes in head["columns"]}
                yield Rows(shard=head["shard"], count=head["rows"], columns=columns)
            else:
                yield End(shard=head["shard"], error=head.get("error"))
        try:
            status = self._process.wait(_SILENCE_S)
        except subprocess.TimeoutExpired:
            raise VerificationError(f"{self._what}: said all, but did not end within {_SILENCE_S:g} s") from None
        if status:
            said = "\n".join(self._errors.read_text(errors="replace").strip().splitlines()[-_SHOWN_LINES:])
            raise VerificationError(f"{self._what}: ended with status {status}; the last that it said:\n{said}")
        if is_first:
            raise VerificationError(f"{self._what}: ended and said nothing; {python} is no Python interpreter")

    def _column(self, dtype: str | None, sizes: list[Any]) -> Values | str:
        if dtype is None:
            return str(sizes[0])
        items, lengths, valid = (self._take(size) for size in sizes)
        return Values(
            items=np.frombuffer(items, dtype),
            lengths=np.frombuffer(lengths, np.int64) if lengths else None,
            valid=np.frombuffer(valid, np.bool_) if valid else None,
        )

    def _line(self) -> bytes | None:
        """The next line; None at the end."""
        while (end := self._held.find(b"\n")) < 0:
            if not self._fill():
                return None
        return self._take(end + 1)

    def _take(self, size: int) -> bytes:
        while len(self._held) < size:
            if not self._fill():
                raise VerificationError(f"{self._what}: ended in the middle of what it said")
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def _fill(self) -> bool:
        if not select.select([self._handle], [], [], _SILENCE_S)[0]:
            raise VerificationError(f"{self._what}: said nothing for {_SILENCE_S:g} s; ended")
        data = os.read(self._handle, _READ_BYTES)
        self._held += data
        return bool(data)


def _environment(home: str) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": home,
        "TMPDIR": home,
        "HF_HOME": home,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children, if they are still there."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
