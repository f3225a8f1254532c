import gzip
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokenyard.converters.text import BadRecord, TextOptions, plan_texts, read_split
from tokenyard.errors import DataError


@pytest.fixture
def parquet(tmp_path):
    def write(table, **options):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table(table), path, **options)
        return path

    return write


def test_rows_come_in_order_whatever_the_row_groups_and_splits(parquet):
    path = parquet({"text": [f"row {n}" for n in range(1_000)], "other": range(1_000)}, row_group_size=70)
    for split_bytes in (1, 2_000, 1 << 30):
        options = TextOptions(split_bytes=split_bytes)
        splits = plan_texts(path, options).splits
        assert len(splits) == {1: 15, 1 << 30: 1}.get(split_bytes, len(splits))
        documents = [document for split in splits for document in read_split(split, options)]
        assert [document.text for document in documents] == [f"row {n}" for n in range(1_000)]
        assert [document.place.number for document in documents] == list(range(1_000))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_any_type_that_holds_text_is_read(texts, parquet, kind):
    assert texts(parquet({"text": pa.array(["a", "", "汉字", "a"]).cast(kind)})) == ["a", "", "汉字", "a"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_null_and_bytes_that_are_not_utf_8_are_bad_records_with_their_row(read, parquet, kind):
    column = pa.array([b"a", None, b"\xff", b"b"], pa.binary())
    if kind != pa.binary():
        column = column.cast(pa.large_binary() if kind == pa.large_string() else pa.binary()).view(kind)
    records = read(parquet({"text": column}))
    assert [record.kind if isinstance(record, BadRecord) else record.text for record in records] == [
        "a",
        "null_text",
        "invalid_utf8",
        "b",
    ]
    assert ", row 2: not UTF-8: byte 0xFF" in str(records[2])


def test_typed_fields_are_copied_and_absent_nullable_columns_are_null(read, parquet):
    path = parquet({"text": ["a", "b"], "n": [1, None], "raw": [b"\xff", b""], "ok": [True, False]})
    records = read(path, fields={"n": "int64?", "raw": "bytes", "ok": "bool", "gone": "string?"})
    assert [record.fields for record in records] == [
        {"n": 1, "raw": b"\xff", "ok": True, "gone": None},
        {"n": None, "raw": b"", "ok": False, "gone": None},
    ]


def test_a_missing_column_is_an_error_that_names_those_there(read, parquet):
    with pytest.raises(DataError, match="expected one column 'text', found 0; the columns are 'body', 'n'"):
        read(parquet({"body": ["a"], "n": [1]}))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"text": [["a", "b"]], "n": [1]}, r"column 'text' has type list<.*>; expected a string"),
        ({"text": [5], "n": [1]}, r"column 'text' has type int64; expected a string"),
        ({"text": ["a"], "n": [{"a": 1}]}, r"column 'n' has type struct<a: int64>; expected a scalar"),
    ],
)
def test_columns_of_types_that_can_not_be_read_are_errors(read, parquet, table, message):
    with pytest.raises(DataError, match=message):
        read(parquet(table), fields={"n": "int64"})


def test_a_scalar_of_another_type_than_declared_is_a_bad_record(read, parquet):
    (bad,) = read(parquet({"text": ["a"], "n": ["one"]}), fields={"n": "int64"})
    assert bad.kind == "bad_field"
    assert "field 'n': expected int64, found str 'one'" in bad.message


def test_a_document_above_the_limit_is_a_bad_record(read, parquet):
    records = read(parquet({"text": ["a", "é" * 51, "b"]}), max_document_bytes=100)
    assert [getattr(record, "kind", "good") for record in records] == ["good", "too_long", "good"]
    assert "row 1: a document of 102 bytes, above max_document_bytes = 100" in str(records[1])


def test_a_file_compressed_as_a_whole_is_read_in_one_split(texts, parquet):
    path = parquet({"text": ["a", "b", "c"]}, row_group_size=1)
    packed = path.with_suffix(".parquet.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert texts(packed, split_bytes=1) == ["a", "b", "c"]
    assert len(plan_texts(packed, TextOptions(split_bytes=1)).splits) == 1


def test_a_damaged_page_is_an_error_with_its_row_group(read, parquet):
    path = parquet({"text": ["some text"] * 100}, compression="none", use_dictionary=False, write_page_checksum=True)
    row = b"\x09\0\0\0some text"
    path.write_bytes(path.read_bytes().replace(row * 2, row + row.upper(), 1))
    with pytest.raises(DataError, match=r"a\.parquet, row group 0, near row 0: damaged: .*checksum"):
        read(path)


@pytest.mark.parametrize("size", [0, 3, 100])
def test_a_cut_file_is_an_error(parquet, size):
    path = parquet({"text": ["a"] * 100})
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DataError, match=r"a\.parquet: not a whole Parquet file"):
        plan_texts(path, TextOptions())


def test_a_file_without_rows_has_no_documents(texts, parquet):
    assert texts(parquet({"text": pa.array([], pa.string())})) == []


def test_a_dictionary_that_expands_to_gigabytes_takes_little_memory(read, parquet):
    one = "x" * 100_000
    path = parquet({"text": pa.array([one] * 5_000).dictionary_encode()})
    assert path.stat().st_size < 200_000
    options = TextOptions()
    (split,) = plan_texts(path, options).splits
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    assert sum(len(document.text) for document in read_split(split, options)) == 500_000_000
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 64 << 20
