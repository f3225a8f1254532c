"""Thousands of damaged and forged corpora: each is refused with an error of ours, or read rightly, in its bounds."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.campaign import REPOSITORY, Campaign
from tests.fuzz.mutations import edit_file, mutate
from tests.fuzz.parsers import parse, targets
from tests.fuzz.reading import Original, UnallowedError, files_of, read_mutant, write_mutant
from tests.fuzz.seeds import FORMATS, SEEDS
from tests.fuzz.texts import TEXTS
from tokenyard.formats.registry import get_format
from tokenyard.rows import RowBatch

PARSERS = ["npy-header", "tar", "mds-index", "mds-shard", "row-index", "manifest", "jsonl", "csv", "thrift", "schema"]


#: Of these fewer mutants are refused, since most are a text again, or tokens again that no checksum tells of.
_MOSTLY_READ = {"text-jsonl", "npy-bare"}


def check(campaign: Campaign, at_least: int, *, refused: float = 0.2) -> None:
    assert not campaign.failures, "\n\n".join(campaign.failures[:5])
    assert campaign.counts.total() >= at_least
    assert campaign.counts["read"] + campaign.counts["verified"] > 0
    assert campaign.counts["refused"] > refused * at_least


@pytest.mark.parametrize("format", FORMATS)
def test_mutants_are_refused_or_read_rightly(format: str) -> None:
    campaign = Campaign()
    campaign.run(FORMATS[format], 0, 240 // len(FORMATS[format]))
    check(campaign, 200)


def test_mutants_of_texts_are_refused_or_read() -> None:
    campaign = Campaign()
    campaign.run(list(TEXTS), 0, 240 // len(TEXTS))
    check(campaign, 200)


@pytest.mark.soak
@pytest.mark.parametrize("name", TEXTS)
def test_thousands_of_mutants_of_texts_are_refused_or_read(name: str) -> None:
    campaign = Campaign()
    campaign.run([name], 1_000_000, 3_000)
    check(campaign, 3_000, refused=0.1 if name in _MOSTLY_READ else 0.2)


@pytest.mark.soak
@pytest.mark.parametrize("name", SEEDS)
def test_tens_of_thousands_of_mutants_are_refused_or_read_rightly(name: str) -> None:
    format = name.split("-")[0]
    campaign = Campaign()
    campaign.run([name], 1_000_000, 20_000 // len(FORMATS[format]))
    check(campaign, 20_000 // len(FORMATS[format]), refused=0.1 if name in _MOSTLY_READ else 0.2)


@pytest.mark.parametrize("name", PARSERS)
def test_parsers_take_any_bytes(name: str) -> None:
    target, rng = targets()[name], random.Random(name)
    for seed in target.seeds:
        target.parse(seed)
        for _ in range(300):
            data = seed
            for _ in range(rng.choice([1, 1, 2, 4])):
                data = edit_file(f"x.{rng.choice(['json', 'idx', 'tar', 'bin'])}", data, rng)
            parse(target, data)


@pytest.mark.soak
@pytest.mark.parametrize("name", PARSERS)
def test_atheris_finds_no_bytes_that_parsers_fail_on(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz.parsers", name, "-max_total_time=120", f"-artifact_prefix={tmp_path}/"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Done " in done.stderr


def test_every_format_and_every_parser_is_among_them() -> None:
    assert set(targets()) == set(PARSERS)
    assert all(get_format(name).name == name for name in FORMATS)
    assert sum(map(len, FORMATS.values())) == len(SEEDS)


def test_a_mutant_is_the_same_each_time(tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        SEEDS["mds-gz"](folder)
    a, b = files_of(tmp_path / "a"), files_of(tmp_path / "b")
    assert a == b
    assert [mutate(a, i, a) for i in range(50)] == [mutate(b, i, b) for i in range(50)]


def test_rows_that_are_not_the_originals_are_found(tmp_path: Path) -> None:
    SEEDS["npy-packed"](tmp_path / "c")
    found = Original.read(tmp_path / "c")
    assert read_mutant(tmp_path / "c", 0, found) == "verified"
    other = RowBatch(tokens=found.rows.tokens + 1, offsets=found.rows.offsets, fields=found.rows.fields)
    with pytest.raises(AssertionError, match="tokens: item 0 is 0, expected 1"):
        read_mutant(tmp_path / "c", 0, Original(manifest=found.manifest, rows=other, own=True))
    assert issubclass(UnallowedError, AssertionError)


def test_a_process_that_ends_names_its_mutant_and_the_rest_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Python ends the process on the second mutant of the first corpus."""
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\ncase \"$3\" in npy:0:*) printf 'mutant npy 0\\nmutant npy 1\\n'; kill -9 $$;; esac\n"
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    campaign = Campaign()
    campaign.run(["npy", "csv"], 0, 3)
    (failure,) = campaign.failures
    assert failure == "python -m tests.fuzz.mutants npy:1:1 --keep FOLDER\nended its process with -9"
    assert campaign.counts.total() == 1 + 3


def test_links_and_folders_are_among_the_mutants(tmp_path: Path) -> None:
    for number in range(300):
        write_mutant(tmp_path / f"{number}", {"a": b"1", "b/c": b"2"}, number)
    assert any(p.is_symlink() for p in tmp_path.rglob("*"))
    assert any(p.is_dir() and p.name == "a" for p in tmp_path.rglob("*"))
