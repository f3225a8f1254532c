"""Corpora to be damaged, and damages, each with what it must be found by."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tokenyard
from tokenyard.schema import Schema

FORMATS = ("npy", "mds", "webdataset", "parquet", "jsonl", "csv")
#: What is damaged, mostly: shard 1, and 2 where two are exchanged.
BAD, OTHER = 1, 2


def write(path, format="npy", num_rows=3000, changed=None, shard_bytes=20_000, **options):
    """Rows of six tokens of three digits, so that shards of most formats have one size; row ``changed`` is another."""
    rng = np.random.default_rng(0)
    with tokenyard.CorpusWriter(
        path, format=format, schema=Schema(token_dtype="uint16"), shard_bytes=shard_bytes, **options
    ) as writer:
        for i in range(num_rows):
            row = rng.integers(100, 999, 6)
            writer.write(row + 1 if i == changed else row)
    return path


def shard_file(path: Path, shard: int) -> Path:
    return path / tokenyard.open_corpus(path).manifest.shards[shard].name


def index_file(path: Path, shard: int) -> Path:
    index = tokenyard.open_corpus(path).manifest.shards[shard].index
    assert index is not None
    return path / index.name


def flip(file: Path, at: int, bits: int = 0x10) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= bits
    file.write_bytes(data)


def edit_manifest(path: Path, change: Callable[[dict], None]) -> None:
    """Change the manifest as JSON; totals follow, as one would write it by hand."""
    file = path / ".tokenyard" / "manifest.json"
    said = json.loads(file.read_bytes())
    change(said)
    said["rows"] = sum(s["rows"] for s in said["shards"])
    said["tokens"] = sum(s["tokens"] for s in said["shards"])
    file.write_text(json.dumps(said))


def cut(path):
    file = shard_file(path, BAD)
    file.write_bytes(file.read_bytes()[:-10])


def lengthen(path):
    file = shard_file(path, BAD)
    file.write_bytes(file.read_bytes() + b"\0" * 512)


def remove(path):
    shard_file(path, BAD).unlink()


def flip_in_data(path):
    file = shard_file(path, BAD)
    flip(file, file.stat().st_size // 2)


def flip_at_the_beginning(path):
    flip(shard_file(path, BAD), 3)


def flip_at_the_end(path):
    flip(shard_file(path, BAD), -3)


def flip_in_the_index(path):
    flip(index_file(path, BAD), -20)


def remove_the_index(path):
    index_file(path, BAD).unlink()


def exchange(path):
    a, b = shard_file(path, BAD), shard_file(path, OTHER)
    data = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(data)


def count_a_row_more(path):
    edit_manifest(path, lambda said: said["shards"][BAD].update(rows=said["shards"][BAD]["rows"] + 1))


def count_a_token_less(path):
    edit_manifest(path, lambda said: said["shards"][BAD].update(tokens=said["shards"][BAD]["tokens"] - 1))


def promise_another_checksum(path):
    def change(said):
        said["shards"][BAD]["files"][0][2] = "blake3:" + "0" * 64

    edit_manifest(path, change)


@dataclass(frozen=True)
class Damage:
    """How a corpus is damaged, which shards must be named, and whether quick verification finds it."""

    do: Callable[[Path], None]
    bad: tuple[int, ...]
    quick: bool


DAMAGES = (
    Damage(cut, (BAD,), True),
    Damage(lengthen, (BAD,), True),
    Damage(remove, (BAD,), True),
    Damage(flip_in_data, (BAD,), False),
    Damage(flip_at_the_beginning, (BAD,), False),
    Damage(flip_at_the_end, (BAD,), False),
    Damage(flip_in_the_index, (BAD,), True),
    Damage(remove_the_index, (BAD,), True),
    Damage(count_a_row_more, (BAD,), True),
    Damage(count_a_token_less, (BAD,), True),
    Damage(promise_another_checksum, (BAD,), False),
)
