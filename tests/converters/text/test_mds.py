import json
import struct

import numpy as np
import pytest

from tokenyard.converters.text import BadRecord, TextOptions, plan_texts, read_split
from tokenyard.errors import DataError, StorageError
from tokenyard.formats.shared.compression import LEVELS, compress

COLUMNS = {"id": ("int", 8), "raw": ("bytes", None), "score": ("float32", 4), "text": ("str", None)}


def shard_bytes(rows, columns):
    """Lay out a shard as mosaicml-streaming 0.13 does, with the description between offsets and samples."""
    samples = []
    for row in rows:
        values = [row[name] for name in columns]
        sizes = [len(value) for value, (_, size) in zip(values, columns.values(), strict=True) if size is None]
        samples.append(struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(values))
    header = 4 + 4 * (len(rows) + 1)
    description = json.dumps({"column_names": list(columns)}).encode()
    offsets = [header + len(description)]
    for sample in samples:
        offsets.append(offsets[-1] + len(sample))
    return struct.pack(f"<{len(rows) + 2}I", len(rows), *offsets) + description + b"".join(samples)


def row(n):
    return {
        "id": struct.pack("<q", n),
        "raw": bytes([n % 256]),
        "score": struct.pack("<f", n / 2),
        "text": f"é{n}".encode(),
    }


@pytest.fixture
def mds(tmp_path):
    """Write an MDS folder; `forms` says which files each shard gets."""

    def write(shards, columns=COLUMNS, forms=(), edit=lambda index: None, compression="zstd"):
        folder = tmp_path / "mds"
        folder.mkdir()
        described = []
        for number, rows in enumerate(shards):
            data = shard_bytes(rows, columns)
            name = f"shard.{number:05}.mds"
            form = forms[number] if forms else "raw"
            if "raw" in form:
                (folder / name).write_bytes(data)
            zipped = None
            if "zip" in form:
                packed = bytes(compress(np.frombuffer(data, np.uint8), compression))
                (folder / f"{name}.{compression}").write_bytes(packed)
                zipped = {"basename": f"{name}.{compression}", "bytes": len(packed), "hashes": {}}
            described.append(
                {
                    "column_encodings": [encoding for encoding, _ in columns.values()],
                    "column_names": list(columns),
                    "column_sizes": [size for _, size in columns.values()],
                    "compression": compression if zipped else None,
                    "format": "mds",
                    "hashes": [],
                    "raw_data": {"basename": name, "bytes": len(data), "hashes": {}},
                    "samples": len(rows),
                    "size_limit": 1 << 26,
                    "version": 2,
                    "zip_data": zipped,
                }
            )
        edit(described)
        (folder / "index.json").write_text(json.dumps({"shards": described, "version": 2}))
        return folder

    return write


ROWS = [row(n) for n in range(30)]
SHARDS = [ROWS[:10], [], ROWS[10:11], ROWS[11:]]
TEXTS = [f"é{n}" for n in range(30)]


@pytest.mark.parametrize("split_bytes", [1, 300, 1 << 20])
def test_samples_come_in_order_with_typed_fields(read, mds, split_bytes):
    records = read(mds(SHARDS), split_bytes=split_bytes, fields={"id": "int64", "raw": "bytes", "score": "float64"})
    assert [record.text for record in records] == TEXTS
    assert [record.fields["id"] for record in records] == list(range(30))
    assert records[29].fields == {"id": 29, "raw": b"\x1d", "score": 14.5}
    assert str(records[29].place).endswith("shard.00003.mds, sample 18")


def test_raw_and_compressed_side_by_side_count_once_and_either_alone_is_enough(texts, mds):
    folder = mds(SHARDS, forms=["raw+zip", "zip", "raw", "zip"])
    assert texts(folder) == TEXTS
    assert texts(folder / "index.json") == TEXTS
    assert texts(str(folder.parent / "m*")) == TEXTS


@pytest.mark.parametrize("compression", LEVELS)
def test_shards_are_decompressed_as_the_index_says(texts, mds, compression):
    def with_level(index):
        index[0]["compression"] += ":1"

    assert texts(mds(SHARDS, forms=["zip"] * 4, compression=compression, edit=with_level)) == TEXTS


@pytest.mark.parametrize("compression", LEVELS)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_shard_that_decompresses_to_another_size_than_promised_is_an_error(read, mds, compression, change):
    def lie(index):
        index[0]["raw_data"]["bytes"] += change

    with pytest.raises(DataError, match=r"shard\.00000\.mds\.\w+: .*(bytes were promised|it says \d+ bytes, expected)"):
        read(mds([ROWS], forms=["zip"], compression=compression, edit=lie))


def test_text_that_is_not_utf_8_is_a_bad_record_with_shard_and_sample(read, mds):
    records = read(mds([[row(1), row(2) | {"text": b"\xff"}]]))
    assert isinstance(records[1], BadRecord)
    assert "shard.00000.mds, sample 1: not UTF-8" in str(records[1])


def test_a_sample_above_the_limit_is_a_bad_record_and_the_next_is_read(read, mds):
    records = read(mds([[row(1), row(2) | {"text": b"x" * 5_000_000}, row(3)]]), max_document_bytes=1_000)
    assert [getattr(record, "kind", "good") for record in records] == ["good", "too_long", "good"]


def test_fewer_samples_than_promised_is_an_error_with_both_numbers(read, mds):
    with pytest.raises(DataError, match=r"shard\.00000\.mds: index\.json .* promises 100 samples, the shard holds 97"):
        read(mds([[row(n) for n in range(97)]], edit=lambda index: index[0].update(samples=100)))


def test_a_missing_column_is_an_error_that_names_those_there(read, mds):
    with pytest.raises(DataError, match=r"no column 'body' in shard shard\.00000\.mds; .*'id' \(int\)"):
        read(mds(SHARDS), text_field="body")


def test_pickles_are_refused_where_they_would_be_read_and_passed_over_elsewhere(read, texts, mds):
    folder = mds([[{"p": b"pickle", "text": b"a"}]], columns={"p": ("pkl", None), "text": ("str", None)})
    assert texts(folder) == ["a"]
    with pytest.raises(
        DataError, match=r"column 'p' of shard shard\.00000\.mds: pickled objects, which tokenyard never"
    ):
        read(folder, fields={"p": "bytes"})
    with pytest.raises(DataError, match=r"column 'p' .*: pickled objects"):
        read(folder, text_field="p")


@pytest.mark.parametrize(
    ("text", "other", "message"),
    [
        ("jpeg", "str", r"column 'text' of shard shard\.00000\.mds: the encoding jpeg; a text is str or bytes"),
        ("str", "ndarray:uint8", "column 'x' .*: the encoding ndarray:uint8; arrays are not copied from texts"),
        ("str", "mp3", "column 'x' .*: the encoding mp3, which has no type here"),
    ],
)
def test_an_encoding_that_is_not_read_is_named(read, mds, text, other, message):
    folder = mds([[{"text": b"a", "x": b""}]], columns={"text": (text, None), "x": (other, None)})
    with pytest.raises(DataError, match=message):
        read(folder, fields={"x": "string"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], r"\d+ bytes, expected \d+; the file was cut or replaced"),
        (
            lambda data: data[:4] + b"\xff" * 4 + data[8:],
            r"sample 1 begins at byte \d+, but not before byte 42949",
        ),
        (lambda data: data[:8] + b"\0" * 4 + data[12:], r"sample 1 begins at byte 0, but not before byte \d+ it could"),
    ],
)
def test_damaged_shards_are_errors(read, mds, damage, message):
    folder = mds([ROWS])
    path = folder / "shard.00000.mds"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=message):
        read(folder)


def test_a_compressed_shard_that_is_cut_is_an_error(read, mds):
    folder = mds([ROWS], forms=["zip"])
    path = folder / "shard.00000.mds.zstd"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match="the zstd data is cut off"):
        read(folder)


def test_sizes_that_leave_the_sample_are_an_error(read, mds):
    folder = mds([[row(1)]])
    path = folder / "shard.00000.mds"
    data = bytearray(path.read_bytes())
    (begin,) = struct.unpack_from("<I", data, 4)
    struct.pack_into("<I", data, begin, 10_000)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"sample 0 has \d+ bytes, its columns take \d+"):
        read(folder)


def test_a_missing_shard_is_an_error_that_names_both_its_files(read, mds):
    folder = mds([ROWS], forms=["zip"])
    (folder / "shard.00000.mds.zstd").unlink()
    with pytest.raises(StorageError, match=r"neither shard\.00000\.mds nor shard\.00000\.mds\.zstd is there"):
        read(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 1}, r"shards\[0\]: format 'mds' version 1, tokenyard reads mds version 2"),
        ({"column_sizes": []}, r"shards\[0\]: column_names, column_encodings and column_sizes differ in length"),
        ({"raw_data": {"basename": "../x.mds", "bytes": 1}}, r"\.\./x\.mds"),
        ({"raw_data": None}, r"shards\[0\]: .*NoneType"),
    ],
)
def test_an_index_that_is_not_as_it_should_be_is_an_error(mds, change, message):
    with pytest.raises(DataError, match=message):
        plan_texts(mds([ROWS], edit=lambda index: index[0].update(change)), TextOptions())


def test_splits_of_mds_depend_on_the_shards_alone(mds):
    folder = mds(SHARDS)
    options = TextOptions(split_bytes=1)
    splits = plan_texts(folder, options).splits
    assert [(split.start, split.stop) for split in splits] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert [document.text for split in splits for document in read_split(split, options)] == TEXTS
