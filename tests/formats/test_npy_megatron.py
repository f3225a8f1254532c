"""Megatron's IndexedDataset opens as it is: a document is a row."""

import struct
from pathlib import Path

import numpy as np
import pytest

import tokenyard
from tests.formats.read_back import tokens_of
from tests.peers import run_in_peers
from tokenyard.errors import ConfigError, DataError, NotACorpusError

WRITE = """
import sys
import numpy as np
import torch
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

folder, dtype = sys.argv[1:]
for name, documents in (("a", [[[1, 2, 3]], [[4], [5, 6]], [[7, 8]]]), ("b", [[[9]]])):
    builder = IndexedDatasetBuilder(f"{folder}/{name}.bin", dtype=np.dtype(dtype).type)
    for sequences in documents:
        builder.add_document(torch.tensor(sum(sequences, [])), [len(s) for s in sequences])
    builder.finalize(f"{folder}/{name}.idx")
"""
ROWS = [[1, 2, 3], [4, 5, 6], [7, 8], [9]]


@pytest.mark.parametrize("dtype", ["uint16", "int32", "int64"])
def test_documents_that_megatron_wrote_are_rows(tmp_path: Path, dtype: str) -> None:
    run_in_peers(WRITE, tmp_path, dtype, alone=False)
    corpus = tokenyard.open_corpus(tmp_path)
    assert (corpus.format, corpus.schema.token_dtype) == ("npy", dtype)
    assert tokens_of(corpus) == ROWS
    assert tokens_of(tokenyard.open_corpus(tmp_path / "a.bin")) == ROWS[:3]
    assert tokens_of(tokenyard.open_corpus(tmp_path, read="pread")) == ROWS


def test_it_converts_with_proof_and_keeps_an_index_of_its_own(tmp_path: Path) -> None:
    source = write(tmp_path / "source", [[1, 2, 3], [], [65535]], [0, 1, 2, 3])
    report = tokenyard.convert(source, tmp_path / "mds", to="mds")
    assert tokens_of(tokenyard.open_corpus(tmp_path / "mds")) == [[1, 2, 3], [], [65535]]
    from tokenyard.corpus.indexing import index_corpus

    index_corpus(source)
    indexed = tokenyard.open_corpus(source)
    assert indexed.digest == report.digest
    assert tokens_of(indexed) == [[1, 2, 3], [], [65535]]
    assert tokenyard.verify(source).problems == ()


def test_bare_ids_in_a_bin_open_where_their_type_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(np.arange(10, dtype="<u2").tobytes())
    with pytest.raises(NotACorpusError, match=r"found train\.bin"):
        tokenyard.open_corpus(tmp_path)
    corpus = tokenyard.open_corpus(tmp_path, token_dtype="uint16", split={"length": 4})
    assert tokens_of(corpus) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def write(folder: Path, sequences: list[list[int]], ends: list[int], *, code: int = 8, version: int = 1) -> Path:
    folder.mkdir()
    lengths = np.array([len(s) for s in sequences])
    pointers = 2 * (np.cumsum(lengths) - lengths)
    (folder / "a.bin").write_bytes(np.array([id for s in sequences for id in s], "<u2").tobytes())
    head = struct.pack("<9sQBQQ", b"MMIDIDX\x00\x00", version, code, len(sequences), len(ends))
    parts = [lengths.astype("<i4"), pointers.astype("<i8"), np.array(ends, "<i8")]
    (folder / "a.idx").write_bytes(head + b"".join(part.tobytes() for part in parts))
    return folder


def test_split_is_refused_where_the_idx_says_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "c", [[1, 2]], [0, 1])
    with pytest.raises(ConfigError, match=r"a\.bin: a\.idx says where its documents begin; leave out 'split'"):
        tokenyard.open_corpus(folder, split={"length": 1})


@pytest.mark.parametrize(
    ("sequences", "ends", "changes", "message"),
    [
        ([[1, 2]], [0, 1], {"version": 2}, r"a\.idx: an \.idx of version 2 with the dtype code 8; known are version 1"),
        ([[1, 2]], [0, 1], {"code": 9}, r"a\.idx: an \.idx of version 1 with the dtype code 9"),
        ([[1, 2, 3, 4]], [0, 1], {"code": 6}, r"a\.bin: holds float64, but token ids are integers"),
        ([[1, 2]], [0, 2], {}, r"a\.idx: its ends of documents don't lead from 0 to its 1 sequences"),
        ([[1, 2], [3]], [0, 2, 1, 2], {}, r"a\.idx: its ends of documents don't lead from 0 to its 2 sequences"),
        ([[1, 2]], [0, 2**63 - 1, -2, 1], {}, r"a\.idx: its ends of documents don't lead from 0 to its 1 sequences"),
        ([[1, 2]], [], {}, r"a\.idx: its ends of documents don't lead from 0 to its 1 sequences"),
        ([[1, 2], [3, 4]], [0, 2], {"code": 4}, r"a\.idx: it tells of sequences with 4 tokens .* the \.bin .* holds 2"),
    ],
)
def test_an_idx_that_can_not_be_true_is_refused(
    tmp_path: Path, sequences: list[list[int]], ends: list[int], changes: dict[str, int], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        tokenyard.open_corpus(write(tmp_path / "c", sequences, ends, **changes))


def test_an_idx_that_was_cut_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "c", [[1, 2], [3]], [0, 1, 2])
    whole = (folder / "a.idx").read_bytes()
    for size in range(9, len(whole)):
        (folder / "a.idx").write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"a\.idx: .* (was cut|cut or never finished)"):
            tokenyard.open_corpus(folder)


def test_an_idx_that_promises_more_than_there_is_allocates_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path / "c", [[1, 2]], [0, 1])
    data = bytearray((folder / "a.idx").read_bytes())
    data[18:26] = struct.pack("<Q", 2**62)
    (folder / "a.idx").write_bytes(data)
    with pytest.raises(DataError, match=r"a\.idx: .* cut or never finished"):
        tokenyard.open_corpus(folder)
