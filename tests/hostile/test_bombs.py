"""A few bytes that would become gigabytes, and a few kilobytes that would take for ever."""

import bz2
import gzip
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.formats import mds_by_hand, tar_by_hand
from tests.hostile.forging import forge_file, forge_index, forge_manifest
from tests.hostile.memory import within
from tokenyard.converters.text import TextOptions, plan_texts, read_split
from tokenyard.corpus import Corpus, CorpusWriter, open_corpus
from tokenyard.errors import DataError, NoTokensError, TokenyardError
from tokenyard.formats.npy import header as npy_header
from tokenyard.formats.parquet.footer import Chunk
from tokenyard.formats.parquet.pages import check_pages
from tokenyard.schema import Schema

MANY = 1 << 28


def read(corpus: Corpus) -> None:
    list(corpus.batches())


def zeros(packer: Any) -> bytes:
    piece = bytes(1 << 24)
    return b"".join(packer.compress(piece) for _ in range(16)) + packer.flush()


def lines_of_ours(folder: Path, format: str, compression: str) -> str:
    with CorpusWriter(folder, format=format, schema=Schema(token_dtype="uint16"), compression=compression) as writer:
        for i in range(4):
            writer.write([i])
    return open_corpus(folder).manifest.shards[0].name


@pytest.mark.parametrize("format", ["jsonl", "csv"])
@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_block_of_text_that_grows_past_its_rows_is_refused(tmp_path: Path, format: str, compression: str) -> None:
    name = lines_of_ours(tmp_path / "c", format, compression)
    bomb = gzip.compress(bytes(MANY), 1) if compression == "gzip" else zstandard.compress(bytes(MANY))
    forge_file(tmp_path / "c", name, bomb)
    forge_index(tmp_path / "c", block_starts=[0, len(bomb)])
    with (
        within(500),
        pytest.raises(DataError, match=r"hold more than 2013\d+ bytes after decompression, which no such"),
    ):
        read(open_corpus(tmp_path / "c"))


def test_a_frame_that_does_not_say_or_lies_about_what_it_holds_is_refused(tmp_path: Path) -> None:
    name = lines_of_ours(tmp_path / "c", "jsonl", "zstd")
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 100)
    # A frame header of four bytes of magic, a descriptor, and eight of size.
    lying = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**40) + b"\x01\0\0"
    for data, why in (
        (silent, "a frame that does not say how much it holds"),
        (lying, "no 1099511627776 bytes are in"),
    ):
        forge_file(tmp_path / "c", name, data)
        forge_index(tmp_path / "c", block_starts=[0, len(data)])
        with within(50), pytest.raises(DataError, match=f"can't be decompressed .{why}"):
            read(open_corpus(tmp_path / "c"))


@pytest.mark.parametrize("compression", ["zstd", "gz", "br", "bz2"])
def test_a_shard_that_grows_past_its_promised_size_is_refused(tmp_path: Path, compression: str) -> None:
    brotli = pa.Codec("brotli").compress(bytes(MANY), asbytes=True)
    bombs = {
        "zstd": lambda: zstandard.compress(bytes(MANY)),
        "gz": lambda: zeros(zlib.compressobj(1, zlib.DEFLATED, 31)),
        "br": lambda: brotli,
        "bz2": lambda: bz2.compress(bytes(100 << 20)) * 100,  # ten GiB out of ten kilobytes
    }
    folder = mds_by_hand.dataset(
        tmp_path / "c", {"tokens": "ndarray:int32"}, [{"tokens": [1]}], compression=compression
    )
    bomb = bombs[compression]()
    (folder / f"shard.00000.mds.{compression}").write_bytes(bomb)
    mds_by_hand.edit(folder, zip_data={"bytes": len(bomb)}, raw_data={"bytes": 1 << 20})
    with within(100), pytest.raises(DataError, match=r"1048576 bytes were promised after .* gives more than that"):
        open_corpus(folder)


@pytest.mark.parametrize("compression", ["zstd", "gz", "br", "bz2", "snappy"])
def test_a_shard_of_fewer_bytes_than_promised_takes_no_memory_for_the_rest(tmp_path: Path, compression: str) -> None:
    folder = mds_by_hand.dataset(
        tmp_path / "c", {"tokens": "ndarray:int32"}, [{"tokens": [1]}], compression=compression
    )
    mds_by_hand.edit(folder, raw_data={"bytes": 2**32 - 1})
    expected = "4294967295 bytes were promised after decompression, "
    with within(100), pytest.raises(DataError, match=expected + r"(but \d+ bytes of \w+ hold at most|\w+ gives)"):
        open_corpus(folder)


def test_a_tar_that_grows_past_its_promised_size_is_refused(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path / "c", format="webdataset", schema=Schema(), compression="gz") as writer:
        writer.write([1, 2])
    bomb = zeros(zlib.compressobj(1, zlib.DEFLATED, 31))
    forge_file(tmp_path / "c", "shard-00000.tar.gz", bomb)
    with within(50), pytest.raises(DataError, match="bytes were promised after decompression, gz gives more than that"):
        read(open_corpus(tmp_path / "c"))
    forge_manifest(tmp_path / "c", lambda shard: shard["meta"].update(raw_bytes=2**31 + len(bomb) * 2000))
    with within(50), pytest.raises(DataError, match=r"bytes of gz hold at most|raw_bytes is said to be"):
        read(open_corpus(tmp_path / "c"))


def test_a_page_that_declares_more_than_its_column_is_refused(tmp_path: Path) -> None:
    """A dictionary of 500 million values out of a few kilobytes: pyarrow takes memory for them before it looks."""
    table = pa.table({"tokens": [[1, 2]] * 50, "x": pa.array(list(range(50)), pa.int64())})
    pq.write_table(table, tmp_path / "a.parquet", compression="none")
    assert len(open_corpus(tmp_path)) == 50
    column = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(1)
    data = (tmp_path / "a.parquet").read_bytes()
    at = column.dictionary_page_offset
    # The header says its kind, two sizes, then how many values; written anew it must take as many bytes.
    head = data[at : at + 40]
    values = head.index(b"\x4c\x15") + 2
    forged = {
        "a dictionary of more values than bytes": (values, b"\x80\x80\x80\x80\x02"),
        "a page of more bytes than its column": (3, b"\x80\x80\x80\x80\x02"),
        "a page that goes past the end": (head.index(b"\x15", 4) + 1, b"\x80\x80\x80\x80\x02"),
        "no page at all": (0, b"\x0f"),
        "a page with a size below 0": (3, b"\x01"),
    }
    for what, (place, number) in forged.items():
        (tmp_path / "a.parquet").write_bytes(data[: at + place] + number + data[at + place + len(number) :])
        match = (
            rf"row group 0, column 'x': (the page at byte {at} (would hold|has no sizes)|no page begins at byte {at})"
        )
        with within(50), pytest.raises(DataError, match=match):
            read(open_corpus(tmp_path))
        assert what


def test_a_page_of_texts_that_declares_more_than_its_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"text {i}" for i in range(50)]}), path, compression="none")
    (split,) = plan_texts(path, TextOptions()).splits
    assert len(list(read_split(split, TextOptions()))) == 50
    at = pq.ParquetFile(path).metadata.row_group(0).column(0).dictionary_page_offset
    data = path.read_bytes()
    path.write_bytes(data[: at + 3] + b"\x80\x80\x80\x80\x02" + data[at + 8 :])
    with within(50), pytest.raises(DataError, match=rf"row group 0, column 'text': the page at byte {at} "):
        list(read_split(split, TextOptions()))


def test_a_column_whose_name_is_no_text_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x"], "tokens": [[1]], "other": [1]}), path)
    path.write_bytes(path.read_bytes().replace(b"other", b"\xd2ther"))
    with pytest.raises(DataError, match=r"a\.parquet: not a whole Parquet file: 'utf-8' codec can't decode"):
        plan_texts(path, TextOptions())
    with pytest.raises(DataError, match=r"a\.parquet: the footer can't be decoded .'utf-8' codec can't decode"):
        open_corpus(tmp_path)


def test_a_column_that_begins_where_the_file_ends_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1\x15")
    for start, why in ((4, "it is cut"), (0, "a value of unknown kind 0")):
        chunk = Chunk(num_values=1, decoded_bytes=1, stored_bytes=1, start=start)
        with pytest.raises(DataError, match=rf"row group 3, column 'x': no page begins at byte {start} \({why}\)"):
            check_pages(path, 3, "x", chunk)


def test_headers_of_pages_may_hold_long_statistics(tmp_path: Path) -> None:
    texts = [f"{i}" + "x" * 5000 for i in range(4)]
    table = pa.table({"tokens": [[1]] * 4, "text": texts})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False, write_page_index=False)
    assert [open_corpus(tmp_path).row(i)["text"] for i in range(4)] == texts


def test_a_header_of_rows_without_columns_is_refused(tmp_path: Path) -> None:
    text = b"{'descr': '<i4', 'fortran_order': False, 'shape': (1000000000000, 0), }\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text)
    with (
        within(20),
        pytest.raises(DataError, match=r"but its header promises the shape \(1000000000000, 0\); the file"),
    ):
        open_corpus(tmp_path)


def test_a_shape_whose_product_nobody_could_print_is_an_error_all_the_same(tmp_path: Path) -> None:
    for shape in (f"({'9' * 4000}, {'9' * 4000})", f"({'9' * 5000},)", "(-2, -3)", f"({2**62}, 4)"):
        text = f"{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
        data = b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text
        (tmp_path / "a.npy").write_bytes(data)
        with pytest.raises(DataError, match=r"header promises|unreadable .npy header|an array of shape"):
            open_corpus(tmp_path)
        with pytest.raises(ValueError, match=r"its header promises|Exceeds the limit"):
            npy_header.read_members(np.frombuffer(data, np.uint8), np.array([0]), np.array([len(data)]))


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        (
            "index.json",
            '{"version": 2, "shards": ' + DEEP,
            "line 1: maximum recursion depth exceeded while decoding",
        ),
        ("a.csv", f"tokens\n{DEEP}\n", "a quote|is no token id"),
        ("a.jsonl", f'{{"tokens": {DEEP}\n', "recursion|no whole JSON object"),
        (".tokenyard/manifest.json", f'{{"tokenyard": {DEEP}', "not valid JSON"),
    ],
)
def test_json_nested_without_end_is_an_error_like_any_other(tmp_path: Path, name: str, text: str, match: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    with pytest.raises(TokenyardError, match=match):
        read(open_corpus(tmp_path))


def test_json_nested_without_end_in_a_tar_is_an_error_like_any_other(tmp_path: Path) -> None:
    tar_by_hand.make(tmp_path / "a.tar", {"0.json": DEEP.encode(), "1.json": b"[1]"})
    with pytest.raises(DataError, match="samples have no tokens"):
        open_corpus(tmp_path)
    with pytest.raises(DataError, match=r"'0\.json' \(row 0\): JSON nested too deep"):
        open_corpus(tmp_path, tokens="json")


def test_many_columns_take_time_in_proportion_to_their_number(tmp_path: Path) -> None:
    """Comparing each name with each would take minutes: the test's own limit of time tells."""
    names = [f"c{i}" for i in range(100_000)]
    (tmp_path / "a.csv").write_text(",".join([*names, "c99999"]) + "\n")
    with pytest.raises(DataError, match="two columns are named 'c99999'; rename one"):
        open_corpus(tmp_path)
    (tmp_path / "a.csv").unlink()
    twice = ",".join(f'"{n}": 1' for n in [*names, "c99999"])
    (tmp_path / "a.jsonl").write_text(f'{{"tokens": [1], {twice}}}\n')
    with pytest.raises(DataError, match="an object with the key 'c99999' twice"):
        open_corpus(tmp_path)


def test_many_columns_of_mds_take_time_in_proportion_to_their_number(tmp_path: Path) -> None:
    columns = {f"c{i}": "str" for i in range(20_000)} | {"tokens": "ndarray:int32"}
    folder = mds_by_hand.dataset(tmp_path / "c", columns, [dict.fromkeys(columns, "x") | {"tokens": [1, 2]}])
    assert open_corpus(folder, fields=[])[0].tolist() == [1, 2]


def test_many_kinds_of_members_take_time_in_proportion_to_their_number(tmp_path: Path) -> None:
    for shard in range(16):
        members = {f"{shard:02d}{i // 64:03d}.k{shard}x{i}y": b"" for i in range(1000)}
        tar_by_hand.make(tmp_path / f"{shard}.tar", members)
    with pytest.raises(DataError, match="samples have no tokens"):
        open_corpus(tmp_path)


def test_an_id_of_thousands_of_digits_is_no_token_id(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"tokens\n1 {'9' * 5000}\n")
    with pytest.raises(DataError, match=r"line 2: '9+ is no token id|9' is no token id|is no token id; a cell holds"):
        open_corpus(tmp_path)


def test_a_shape_of_thousands_of_digits_is_an_impossible_one(tmp_path: Path) -> None:
    folder = mds_by_hand.dataset(tmp_path / "c", {"tokens": "ndarray:int32"}, [{"tokens": [1]}])
    for digits in ("9" * 5000, "99999999999999999999", "0", "²"):
        mds_by_hand.edit(folder, column_encodings=[f"ndarray:int32:{digits}"], column_sizes=[2**70])
        with pytest.raises((DataError, NoTokensError), match="arrays of the impossible shape"):
            open_corpus(folder)


def test_names_that_a_terminal_would_obey_are_spelled_out(tmp_path: Path) -> None:
    tar_by_hand.make(tmp_path / "a.tar", {"0.\x1b[2j\udcff": b"x"})
    with pytest.raises(DataError, match=r"members are \.\\x1b\[2j\\udcff; name the one that holds token ids"):
        open_corpus(tmp_path)
    (tmp_path / "a.tar").unlink()
    (tmp_path / "a.jsonl").write_text(json.dumps({"te\x1bxt": 1}) + "\n")
    with pytest.raises(NoTokensError) as caught:
        open_corpus(tmp_path)
    assert "\x1b" not in str(caught.value)


def test_a_key_that_is_no_text_can_not_be_a_field(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"tokens": [1], "\\ud800": 1}\n')
    with pytest.raises(DataError, match=r"can't be kept as fields: .*ud800' \(a name that is no Unicode text\)"):
        open_corpus(tmp_path)
    assert open_corpus(tmp_path, fields=[])[0].tolist() == [1]


def test_an_index_that_its_dictionary_does_not_have_is_an_error_that_names_the_rows(tmp_path: Path) -> None:
    from tokenyard.formats.shared.arrow import column_of
    from tokenyard.schema import FieldType

    bad = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), pa.array(["a"]), safe=False)
    with pytest.raises(DataError, match="row 0 or after: a value that its dictionary doesn't have"):
        column_of(bad, FieldType("string"), lambda row: f"row {row}")


def test_text_of_ours_that_is_not_utf_8_is_an_error_that_names_the_row(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path / "c", format="npy", schema=Schema(fields={"source": "string"})) as writer:
        writer.write([1], source="ab")
        writer.write([2], source="é")
    path = tmp_path / "c/shard-00000.source.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(DataError, match="field 'source', row 1: not UTF-8"):
        read(open_corpus(tmp_path / "c"))
