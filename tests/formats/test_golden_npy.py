"""Bytes that were written once decode for ever, and the same rows are written as they were then."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.formats.golden import without_cells
from tokenyard.corpus import CorpusWriter, open_corpus
from tokenyard.digest import digest_of
from tokenyard.schema import Schema
from tokenyard.testing.round_trips import contents

GOLDEN = Path(__file__).parent.parent / "golden" / "npy"
FIELDS = {"blob": "bytes", "flag": "bool", "mask": "uint8[]", "score": "float32?", "source": "string?", "n": "int64?"}
_NAMES = ("tokens", "blob", "flag", "mask", "score", "source", "n")
_VALUES: list[tuple[Any, ...]] = [
    ([1, 2, 65535], b"\0\xff", True, [1, 1, 0], 0.5, "café 漢", -(2**63)),
    ([], b"", False, [], None, None, None),
    ([*range(300)], b"x\n", True, [0] * 300, -0.0, "", 2**63 - 1),
]
ROWS = [dict(zip(_NAMES, values, strict=True)) for values in _VALUES]
SCHEMA = Schema(token_dtype="uint16", vocab_size=65536, eos_token_id=2, tokenizer="none", fields=FIELDS)
DIGEST = "ty1:4596b9ed2b3240601be24be532d0635d0a60d86f96112be212cd683453ce147d"


def write(folder: Path) -> None:
    """Two shards: the second begins with the last row."""
    with CorpusWriter(folder, format="npy", schema=SCHEMA, shard_bytes=150) as w:
        for row in ROWS:
            w.write(row["tokens"], **{n: row[n] for n in FIELDS})


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_the_golden_corpus_decodes_to_the_rows_it_was_made_of() -> None:
    corpus = open_corpus(GOLDEN)
    assert corpus.schema == SCHEMA
    assert [s.num_rows for s in corpus.manifest.shards] == [2, 1]
    assert [{n: plain(v) for n, v in corpus.row(i).items()} for i in range(3)] == ROWS
    assert np.signbit(corpus.row(2)["score"])
    assert digest_of(corpus.batches(), SCHEMA.fields) == corpus.manifest.digests
    assert corpus.digest == DIGEST


def test_numpy_alone_reads_the_golden_shards() -> None:
    assert np.load(GOLDEN / "shard-00000.npy").tolist() == [1, 2, 65535]
    assert np.load(GOLDEN / "shard-00000.flag.npy").tolist() == [True, False]
    assert np.load(GOLDEN / "shard-00000.source.npy").tobytes().decode() == "café 漢"


def test_the_same_rows_are_written_as_they_were(tmp_path: Path) -> None:
    write(tmp_path / "now")
    now, golden = contents(tmp_path / "now"), contents(GOLDEN)
    assert now.keys() == golden.keys()
    assert without_cells(now) == without_cells(golden)
    said, then = (json.loads(files[".tokenyard/manifest.json"]) for files in (now, golden))
    for shard in (*said["shards"], *then["shards"]):
        assert shard.pop("index")  # whose size and checksum are others
    assert said == then
