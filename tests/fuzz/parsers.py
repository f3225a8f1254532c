"""What reads a header, an index or a line, fed with any bytes: ``python -m tests.fuzz.parsers NAME``.

Started so, atheris looks for bytes that reach new code; more arguments are libFuzzer's, such as ``-max_total_time=60``
(``pip install -r requirements/fuzz.txt``). ``parse`` alone needs nothing: allowed are a result, or the error that each
parser promises.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Target:
    """A parser, bytes that it takes, and what it may raise."""

    parse: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    allowed: type[Exception]


def targets() -> dict[str, Target]:
    """All parsers by name; imported here, so that atheris can watch what is imported."""
    from tests.formats import mds_by_hand, tar_by_hand
    from tests.fuzz.mutations import with_checksums
    from tests.fuzz.seeds import rows
    from tokenyard.errors import TokenyardError
    from tokenyard.formats.csv import Csv
    from tokenyard.formats.index import ShardIndex
    from tokenyard.formats.jsonl import Jsonl
    from tokenyard.formats.mds import decode, index
    from tokenyard.formats.mds.columns import MdsColumn
    from tokenyard.formats.npy import header
    from tokenyard.formats.parquet.thrift import Thrift
    from tokenyard.formats.webdataset import samples, tar
    from tokenyard.manifest import FileInfo, Manifest, ShardInfo
    from tokenyard.schema import FieldType, Schema

    encodings = {"n": "int", "text": "str", "tokens": "ndarray:int32", "x": "ndarray"}
    shard = mds_by_hand.shard(encodings, [{"n": 1, "text": "é", "tokens": [1, 2], "x": np.array([1], np.uint8)}] * 2)
    columns = [MdsColumn(name=n, encoding=e, size=mds_by_hand.size_of(e)) for n, e in encodings.items()]
    fields = {"n": FieldType("int64"), "f": FieldType("float32", False, True), "s": FieldType("string")}
    csv_meta = {"tokens": "tokens", "columns": ["row", "tokens", "n", "f", "f.valid", "s"]}
    jsonl_meta = {"tokens": "tokens", "names": sorted(fields), "all": True}

    def a_tar(data: bytes) -> object:
        buffer = np.frombuffer(with_checksums(data), np.uint8)
        found = tar.members(buffer, "here")
        samples.group(found, "here")
        starts, sizes = (np.array([getattr(m, n) for m in found], np.int64) for n in ("start", "size"))
        try:
            return header.read_members(buffer, starts, sizes)
        except header.NpyError:
            return None

    def mds_shard(data: bytes) -> object:
        buffer = np.frombuffer(data, np.uint8)
        bounds = decode.sample_bounds(buffer, 2, "here")
        runs = decode.column_runs(buffer, bounds, columns, "here")
        return [decode.values(buffer, c, *runs[c.name], None, "here") for c in columns]

    def lines(format: Any, meta: dict[str, Any]) -> Callable[[bytes], object]:
        def parse(data: bytes) -> object:
            numbered = enumerate(data.splitlines(keepends=True), 1)
            records = [record for _, record in format.records(numbered, meta, "here")]
            return format.decode(records, meta, fields, lambda row: f"row {row}")

        return parse

    with tempfile.TemporaryDirectory() as folder:
        tars = [
            tar_by_hand.make(
                Path(folder) / "a.tar", {"long " * 30 * (f > 0) + "0.npy": tar_by_hand.npy([1, 2])}, format=f
            ).read_bytes()
            for f in range(3)
        ]
        made = mds_by_hand.dataset(Path(folder) / "mds", encodings, [], compression="zstd")
        mds_by_hand.dataset(
            made, encodings, [{"n": 1, "text": "", "tokens": [1], "x": np.array([1])}], compression="zstd"
        )
        index_json = (made / "index.json").read_bytes()
    offsets = np.array([0, 3, 3, 9], np.int64)
    row_index = ShardIndex(arrays={"offsets": offsets, "starts": offsets[:-1] * 8}, meta={"dtypes": {"tokens": "<u2"}})
    file = FileInfo(name="a.npy", bytes=8, checksum="blake3:00")
    manifest = Manifest(
        format="npy", schema=rows(3)[0], shards=(ShardInfo(files=(file,), num_rows=3, num_tokens=9),) * 2
    ).to_json()
    return {
        "npy-header": Target(
            parse=header.parse_header,
            seeds=(tar_by_hand.npy([1, 2]), tar_by_hand.npy([[1.5]]), header.write_header(np.dtype("<u2"), (3,))),
            allowed=ValueError,
        ),
        "tar": Target(parse=a_tar, seeds=tuple(tars), allowed=TokenyardError),
        "mds-index": Target(parse=lambda d: index.from_json(d, "here"), seeds=(index_json,), allowed=TokenyardError),
        "mds-shard": Target(parse=mds_shard, seeds=(shard,), allowed=TokenyardError),
        "row-index": Target(
            parse=lambda d: ShardIndex.from_bytes(d, "here", 1 << 16),
            seeds=(row_index.to_bytes(), row_index.to_bytes(0)),
            allowed=TokenyardError,
        ),
        "manifest": Target(
            parse=lambda d: Manifest.from_json(d, "here"),
            seeds=(manifest.encode(), json.dumps(json.loads(manifest)).encode()),
            allowed=TokenyardError,
        ),
        "jsonl": Target(
            parse=lines(Jsonl(), jsonl_meta),
            seeds=(b'{"tokens":[1,2],"n":1,"f":0.5,"s":"x"}\n{"n":-1,"tokens": [3, 4],"f":"NaN","s":"\\u00e9"}\n',),
            allowed=TokenyardError,
        ),
        "csv": Target(
            parse=lines(Csv(), csv_meta),
            seeds=(b'0,1 2 3,1,0.5,1,"a ""b"""\n1,"[4, 5]",-1,,0,"x\ny"\n',),
            allowed=TokenyardError,
        ),
        "thrift": Target(
            parse=lambda d: _thrift(Thrift(d)), seeds=(b"\x15\x04\x19\x2c\x35\x00\x00\x00\x00",), allowed=ValueError
        ),
        "schema": Target(
            parse=lambda d: Schema.from_dict(json.loads(d)) if _is_object(d) else None,
            seeds=(json.dumps(rows(3)[0].to_dict()).encode(),),
            allowed=TokenyardError,
        ),
    }


def _thrift(thrift: Any) -> object:
    try:
        return thrift.struct()
    except IndexError:
        return None


def _is_object(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False


def parse(target: Target, data: bytes) -> None:
    """Parse bytes. Raises what the parser may not."""
    try:
        target.parse(data)
    except target.allowed as error:
        str(error).encode()


def main(name: str, options: list[str]) -> None:
    """Look for bytes that a parser fails on, until stopped."""
    import atheris  # in requirements/fuzz.txt

    with atheris.instrument_imports(include=["tokenyard.formats", "tokenyard.manifest", "tokenyard.schema"]):
        target = targets()[name]
    with tempfile.TemporaryDirectory() as seeds:
        for i, data in enumerate(target.seeds):
            (Path(seeds) / str(i)).write_bytes(data)
        atheris.Setup([sys.argv[0], *options, seeds], lambda data: parse(target, data))
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
