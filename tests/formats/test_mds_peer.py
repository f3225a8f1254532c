"""mosaicml-streaming judges: it reads what we write, token by token, and we read what it writes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.all_fields import FIELDS, make_samples, write_mds
from tests.peers import run_in_peers
from tokenyard import open_corpus
from tokenyard.schema import FieldType

SCRIPTS = Path(__file__).parent / "peer_scripts"
LENGTHS = [5, 0, 1, 255, 256, 2048, 65535, 65536, 2]


def seen_by_streaming(sample: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in sample.items():
        type = FieldType.parse(FIELDS[name]) if name != "tokens" else FieldType(value.dtype.name, is_list=True)
        if type.nullable:
            found[f"{name}.valid"] = ["uint8", int(value is not None)]
        stored = "uint8" if type.name == "bool" else type.name
        if type.name == "string":
            found[name] = ["str", value or ""]
        elif type.name == "bytes":
            found[name] = ["bytes", value.hex()]
        elif type.is_list:
            found[name] = [f"{stored}[]", [] if value is None else np.asarray(value, stored).tolist()]
        else:
            found[name] = [stored, np.dtype(stored).type(0 if value is None else value).item()]
    return found


@pytest.mark.parametrize(
    ("compression", "dtype"),
    [("none", "uint16"), ("zstd", "uint32"), ("gz", "int32"), ("br", "int64"), ("bz2", "uint16"), ("snappy", "uint16")],
)
def test_streaming_dataset_reads_what_we_write(tmp_path: Path, compression: str, dtype: str) -> None:
    rows = make_samples(LENGTHS, dtype)
    write_mds(tmp_path / "c", rows, FIELDS, compression=compression, shard_bytes=100_000)
    assert len(list((tmp_path / "c").glob("*.mds*"))) > 1
    found = run_in_peers(SCRIPTS / "mds_read.py", tmp_path / "c")
    assert found["rows"] == [seen_by_streaming(row) for row in rows]


ROWS = [
    {
        "tokens": np.random.default_rng(n).integers(0, 50_000, n).tolist(),
        "a": f"é{n}",
        "n": -n,
        "f": n / 2,
        "any": ["int16", [n % 100, 1]],
        "pair": [0.5, n],
        "blob": bytes([n % 256]).hex(),
        "meta": {"n": n},
        "big": n,
    }
    for n in (1, 255, 256, 2048, 65536, 3)
]
COLUMNS = {
    "tokens": "ndarray:int32", "a": "str", "n": "int", "f": "float64", "any": "ndarray", "pair": "ndarray:float32:2",
    "blob": "bytes", "meta": "json", "big": "str_int",
}  # fmt: skip
COMPRESSIONS = [None, "zstd", "zstd:9", "gz", "br", "bz2", "snappy"]
#: Ways to write tokens: the encoding, the rows as MDSWriter gets them, and as we should read them.
ENCODINGS: dict[str, tuple[str, list[Any], list[list[int]], dict[str, Any]]] = {
    "shape": ("ndarray:uint16:3", [[1, 2, 3], [4, 5, 65535]], [[1, 2, 3], [4, 5, 65535]], {}),
    "no-dtype": ("ndarray", [["uint32", [1, 2]], ["uint32", [2**32 - 1]]], [[1, 2], [2**32 - 1]], {}),
    "bytes": ("bytes", [np.arange(n).tobytes().hex() for n in (4, 2048)], [list(range(n)) for n in (4, 2048)],
              {"token_dtype": "int64"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of datasets that MDSWriter made."""
    folder = tmp_path_factory.mktemp("written")
    wanted: dict[str, Any] = {
        str(c): {"columns": COLUMNS, "samples": ROWS, "options": {"compression": c, "size_limit": 20_000}}
        for c in COMPRESSIONS
    }
    for name, (encoding, values, *_) in ENCODINGS.items():
        wanted[name] = {"columns": {"tokens": encoding}, "samples": [{"tokens": v} for v in values], "options": {}}
    run_in_peers(SCRIPTS / "mds_write.py", folder, json_in=wanted)
    return folder


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_we_read_what_mds_writer_writes(written: Path, compression: str | None) -> None:
    corpus = open_corpus(written / str(compression))
    assert len(corpus.manifest.shards) > 1
    assert len(corpus) == len(ROWS)
    for i, sample in enumerate(ROWS):
        row = corpus.row(i)
        assert corpus[i].tolist() == row["tokens"].tolist() == sample["tokens"]
        assert (row["a"], row["n"], row["f"]) == (sample["a"], sample["n"], sample["f"])
        assert [row["any"].dtype.name, row["any"].tolist()] == sample["any"]
        assert row["pair"].tolist() == sample["pair"]
        assert row["blob"].hex() == sample["blob"]
        assert (row["meta"], row["big"]) == (f'{{"n": {sample["big"]}}}', str(sample["big"]))


@pytest.mark.parametrize("name", ENCODINGS)
def test_we_read_tokens_in_every_way_that_mds_writer_knows(written: Path, name: str) -> None:
    _, _, expected, options = ENCODINGS[name]
    corpus = open_corpus(written / name, **options)
    assert [corpus[i].tolist() for i in range(len(corpus))] == expected
