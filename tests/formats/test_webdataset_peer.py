"""webdataset judges: it reads what we write, token by token, and we read what it writes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.all_fields import FIELDS, make_samples, write_webdataset
from tests.peers import run_in_peers
from tokenyard import CorpusWriter, Schema, open_corpus
from tokenyard.schema import FieldType

SCRIPTS = Path(__file__).parent / "peer_scripts"
LENGTHS = [5, 0, 1, 255, 2048, 65536, 2]


def seen_by_webdataset(sample: dict[str, Any], key: str) -> dict[str, Any]:
    found: dict[str, Any] = {"__key__": ["str", key]}
    for name, value in sample.items():
        type = FieldType.parse(FIELDS[name]) if name != "tokens" else FieldType(value.dtype.name, is_list=True)
        if value is None:
            continue
        if type.is_binary:
            kind, shown = ("str", value) if type.name == "string" else ("bytes", value.hex())
            found[f"{name}.{'txt' if type.name == 'string' else 'bin'}"] = [kind, shown]
        else:
            array = np.asarray(value, type.dtype)
            found[f"{name}.npy"] = [type.name + "[]" * type.is_list, array.tolist()]
    return found


@pytest.mark.parametrize(("compression", "dtype"), [("none", "uint16"), ("gz", "uint32")])
def test_webdataset_reads_what_we_write(tmp_path: Path, compression: str, dtype: str) -> None:
    rows = make_samples(LENGTHS, dtype)
    write_webdataset(tmp_path / "c", rows * 5, FIELDS, compression=compression, shard_bytes=1_000_000)
    shards = open_corpus(tmp_path / "c").manifest.shards
    counts = [s.num_rows for s in shards]
    assert len(counts) > 1
    keys = [f"{shard:05d}{row:06d}" for shard, count in enumerate(counts) for row in range(count)]
    found = run_in_peers(SCRIPTS / "wds_read.py", *(tmp_path / "c" / s.name for s in shards), alone=False)
    assert found == [seen_by_webdataset(row, key) for row, key in zip(rows * 5, keys, strict=True)]


def test_we_read_what_shard_writer_writes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    given = [
        {
            "__key__": f"part/{n:06d}",
            "tokens.npy": ["uint16", rng.integers(0, 50_000, n).tolist()],
            "mask.npy": ["uint8", [1] * n],
            "score.npy": ["float32", n / 2],
            "source.txt": f"é{n}",
            "meta.json": {"n": n},
            "cls": n,
        }
        for n in [1, 0, 255, 256, 2048, 65536, 3]
    ]
    (tmp_path / "d").mkdir()
    run_in_peers(SCRIPTS / "wds_write.py", tmp_path / "d/s-%04d.tar", json_in=given, alone=False)
    corpus = open_corpus(tmp_path / "d")
    assert [s.num_rows for s in corpus.manifest.shards] == [4, 3]
    for i, sample in enumerate(given):
        row = corpus.row(i)
        assert corpus[i].tolist() == row["tokens"].tolist() == sample["tokens.npy"][1]
        assert row["mask"].tolist() == sample["mask.npy"][1]
        assert (row["score"], row["source"], row["cls"]) == (
            sample["score.npy"][1],
            sample["source.txt"],
            sample["cls"],
        )
        assert row["meta"] == f'{{"n": {sample["cls"]}}}'


def test_a_shard_of_ours_is_no_larger_than_its_own(tmp_path: Path) -> None:
    """Rows of 2,048 uint16 fill eight blocks of a tar, the header of an array spills into a ninth in both."""
    rows = [np.random.default_rng(i).integers(0, 50_000, 2048).astype(np.uint16) for i in range(4)]
    sizes = {}
    for compression in ("none", "gz"):
        options: dict[str, Any] = {"compression": compression}
        path = tmp_path / compression
        with CorpusWriter(path, format="webdataset", schema=Schema(token_dtype="uint16"), **options) as writer:
            for row in rows:
                writer.write(row)
        assert writer.manifest is not None
        sizes[compression] = writer.manifest.num_bytes
    given = [{"__key__": f"{i:06d}", "tokens.npy": ["uint16", row.tolist()]} for i, row in enumerate(rows)]
    run_in_peers(SCRIPTS / "wds_write.py", tmp_path / "s-%04d.tar", json_in=given, alone=False)
    theirs = (tmp_path / "s-0000.tar").stat().st_size
    assert sizes["none"] <= theirs
    assert sizes["gz"] < 0.85 * theirs
