"""The small corpora that are mutated: every format and way of storing, with our manifest and without it.

Some hundred rows at most, so that a mutant is read in milliseconds. They are made anew for each campaign, and equal
bytes come out each time, so that a mutant is known by the name of its corpus and a number.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.formats import mds_by_hand, tar_by_hand
from tokenyard.corpus import CorpusWriter
from tokenyard.corpus.indexing import index_corpus
from tokenyard.manifest import HOME
from tokenyard.rows import RowBatch
from tokenyard.schema import Schema

FIELDS = {
    "flag": "bool",
    "mask": "uint8[]",
    "n": "int64?",
    "score": "float32?",
    "spans": "int32[]?",
    "source": "string?",
    "blob": "bytes",
}


def rows(num_rows: int = 30) -> tuple[Schema, RowBatch]:
    """Ragged rows with fields of every kind; ``mask`` is as long as the tokens."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(0, 9, num_rows)
    schema = Schema(token_dtype="uint16", vocab_size=500, fields=FIELDS)
    fields: dict[str, list[Any]] = {
        "flag": [i % 3 == 0 for i in range(num_rows)],
        "mask": [rng.integers(0, 2, n).tolist() for n in lengths],
        "n": [None if i % 5 == 1 else i - 7 for i in range(num_rows)],
        "score": [None if i % 4 == 2 else i / 8 for i in range(num_rows)],
        "spans": [None if i % 6 == 1 else list(range(-i, -i + i % 4)) for i in range(num_rows)],
        "source": [None if i % 7 == 0 else f'text "{i}",\n é' for i in range(num_rows)],
        "blob": [bytes(range(i % 5)) for i in range(num_rows)],
    }
    return schema, RowBatch.from_rows([rng.integers(0, 500, n) for n in lengths], schema, fields)


def _ours(format: str, **options: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        schema, batch = rows()
        with CorpusWriter(folder, format=format, schema=schema, **{"shard_bytes": 1200, **options}) as writer:
            writer.write_batch(batch)

    return make


def _packed(format: str, **options: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        schema = Schema(token_dtype="uint32", fields={"lengths": "uint32[]"})
        tokens = np.arange(24 * 8, dtype=np.uint32).reshape(24, 8)
        batch = RowBatch.from_rows(list(tokens), schema, {"lengths": [[3, 5]] * 24})
        with CorpusWriter(folder, format=format, schema=schema, **{"shard_bytes": 600, **options}) as writer:
            writer.write_batch(batch)

    return make


def _without_manifest(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def made(folder: Path) -> None:
        make(folder)
        shutil.rmtree(folder / HOME)

    return made


def _indexed(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def made(folder: Path) -> None:
        make(folder)
        index_corpus(folder)

    return made


def _ids(count: int = 12) -> list[list[int]]:
    return [list(range(i, i + i % 5 + 1)) for i in range(count)]


def _foreign_npy(folder: Path) -> None:
    folder.mkdir()
    np.save(folder / "part_0.npy", np.arange(60, dtype=np.uint16).reshape(10, 6))
    np.save(folder / "part_1.npy", np.asfortranarray(np.arange(40, dtype=np.int32).reshape(8, 5)))
    np.save(folder / "part_2.npy", np.arange(30, dtype=">i4"))


def _foreign_mds(compression: str | None) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        columns = {"tokens": "ndarray", "ids": "ndarray:int32", "text": "str", "n": "int", "f": "float32", "b": "bytes"}
        samples = [
            {"tokens": np.array(t, np.uint16), "ids": t, "text": f"é{t}", "n": t[0], "f": 0.5, "b": b"\0" * len(t)}
            for t in _ids()
        ]
        mds_by_hand.dataset(folder, columns, samples, shard_rows=5, compression=compression)

    return make


def _foreign_tar(mode: str, suffix: str, format: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        long = "a folder with a long name/" * 6
        for shard in range(2):
            members: dict[str, Any] = {}
            for i, ids in enumerate(_ids(6)):
                key = f"{long if format else ''}{shard}{i:03d}"
                members[f"{key}.tokens.npy"] = tar_by_hand.npy(ids, "uint16")
                members[f"{key}.cls"] = str(i).encode()
                members[f"{key}.json"] = json.dumps({"source": i}).encode()
            tar_by_hand.make(folder / f"part{shard}{suffix}", members, mode=mode, format=format)

    return make


def _json_tar(folder: Path) -> None:
    members = {f"{i:03d}.json": json.dumps(ids).encode() for i, ids in enumerate(_ids())}
    tar_by_hand.make(folder / "part0.tar", members)


def _foreign_parquet(**options: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir()
        table = pa.table(
            {
                "input_ids": pa.array(_ids(), pa.list_(pa.int32())),
                "large": pa.array(_ids(), pa.large_list(pa.uint16())),
                "text": pa.array([f"é{i}" for i in range(12)]).dictionary_encode(),
                "n": pa.array([None if i % 3 else i for i in range(12)], pa.int64()),
                "f": pa.array([i / 4 for i in range(12)], pa.float16()),
                "flag": pa.array([i % 2 == 0 for i in range(12)]),
            }
        )
        for shard in range(2):
            pq.write_table(table, folder / f"part-{shard}.parquet", row_group_size=5, **options)

    return make


def _foreign_jsonl(folder: Path) -> None:
    folder.mkdir()
    lines = [
        json.dumps({"text": f"é{i}", "input_ids": ids, "n": i, "f": i / 4, "list": ids, "none": None if i % 2 else "x"})
        for i, ids in enumerate(_ids())
    ]
    (folder / "a.jsonl").write_text("\n".join(lines[:6]))
    (folder / "b.jsonl").write_text("\ufeff" + "\r\n".join(lines[6:]) + "\n\n")


def _foreign_csv(folder: Path) -> None:
    folder.mkdir()
    for shard in range(2):
        lines = [f'{i},"{ids}","a ""quote"", é{i}",{i}\n' for i, ids in enumerate(_ids(6))]
        (folder / f"part{shard}.csv").write_text(",input_ids,text,n\n" + "".join(lines))


#: By name, what makes them in a folder that is not there yet.
SEEDS: Mapping[str, Callable[[Path], None]] = {
    "npy": _ours("npy"),
    "npy-packed": _packed("npy"),
    "npy-bare": _without_manifest(_ours("npy")),
    "npy-foreign": _foreign_npy,
    "npy-indexed": _indexed(_foreign_npy),
    "mds": _ours("mds"),
    "mds-packed": _packed("mds"),
    **{f"mds-{c}": _ours("mds", compression=c) for c in ("zstd", "gz", "br", "bz2", "snappy")},
    "mds-bare": _without_manifest(_ours("mds")),
    "mds-foreign": _foreign_mds(None),
    "mds-foreign-zstd": _foreign_mds("zstd"),
    "mds-foreign-br": _foreign_mds("br"),
    "mds-indexed": _indexed(_foreign_mds("zstd")),
    "webdataset": _ours("webdataset"),
    "webdataset-gz": _ours("webdataset", compression="gz"),
    "webdataset-bare": _without_manifest(_ours("webdataset")),
    "webdataset-pax": _foreign_tar("w", ".tar", 2),
    "webdataset-gnu-gz": _foreign_tar("w:gz", ".tar.gz", 1),
    "webdataset-json": _json_tar,
    "webdataset-indexed": _indexed(_foreign_tar("w:gz", ".tar.gz", 0)),
    "webdataset-json-indexed": _indexed(_json_tar),
    "parquet": _ours("parquet", row_group_rows=7),
    "parquet-packed": _packed("parquet", compression="lz4"),
    "parquet-none": _ours("parquet", row_group_rows=7, compression="none"),
    "parquet-bare": _without_manifest(_ours("parquet", row_group_rows=7)),
    "parquet-foreign": _foreign_parquet(compression="none"),
    "parquet-foreign-snappy": _foreign_parquet(compression="snappy", data_page_version="2.0", write_page_index=True),
    "parquet-indexed": _indexed(_foreign_parquet(compression="zstd")),
    "jsonl": _ours("jsonl"),
    "jsonl-gzip": _ours("jsonl", compression="gzip"),
    "jsonl-zstd": _ours("jsonl", compression="zstd"),
    "jsonl-bare": _without_manifest(_ours("jsonl")),
    "jsonl-foreign": _foreign_jsonl,
    "jsonl-indexed": _indexed(_foreign_jsonl),
    "csv": _ours("csv"),
    "csv-gzip": _ours("csv", compression="gzip"),
    "csv-zstd": _ours("csv", compression="zstd"),
    "csv-bare": _without_manifest(_ours("csv")),
    "csv-foreign": _foreign_csv,
    "csv-indexed": _indexed(_foreign_csv),
}
#: Formats with the names of their corpora.
FORMATS = {
    format: [n for n in SEEDS if n.split("-")[0] == format]
    for format in ("npy", "mds", "webdataset", "parquet", "jsonl", "csv")
}
