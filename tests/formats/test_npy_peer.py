"""numpy itself, of another release and without tokenyard, reads our shards; we read what it saves."""

from pathlib import Path

import numpy as np
import pytest

from tests.peers import run_in_peers
from tokenyard.corpus import CorpusWriter, open_corpus
from tokenyard.schema import TOKEN_DTYPES, Schema
from tokenyard.testing.samples import documents, edge_ids

LOAD = """
import json, pathlib, sys
import numpy as np

found = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.npy")):
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    found[path.name] = [str(array.dtype), array.tolist()]
print(json.dumps({"numpy": np.__version__, "arrays": found}))
"""

SAVE = """
import sys
import numpy as np

folder = sys.argv[1]
for i in range(12):
    np.save(f"{folder}/tokens_{i}.npy", np.arange(i, dtype=np.int32) * 1000)
"""


@pytest.mark.parametrize("token_dtype", TOKEN_DTYPES)
def test_numpy_loads_the_tokens_of_our_shards(tmp_path: Path, token_dtype: str) -> None:
    ids = edge_ids(token_dtype)
    with CorpusWriter(tmp_path / "corpus", format="npy", schema=Schema(token_dtype=token_dtype)) as w:
        w.write(ids)
        w.write([])
        w.write(ids[::-1])
    found = run_in_peers(LOAD, tmp_path / "corpus", alone=False)
    assert found["numpy"] != np.__version__
    assert found["arrays"] == {"shard-00000.npy": [token_dtype, ids + ids[::-1]]}


def test_numpy_loads_the_fields_of_our_shards(tmp_path: Path) -> None:
    schema, rows = documents(30)
    with CorpusWriter(tmp_path / "corpus", format="npy", schema=schema, shard_bytes=2000) as w:
        w.write_batch(rows)
    arrays = run_in_peers(LOAD, tmp_path / "corpus", alone=False)["arrays"]
    stems = [s.name.removesuffix(".npy") for s in open_corpus(tmp_path / "corpus").manifest.shards]
    assert len(stems) > 1
    for field in ("doc_id", "mask", "source", "spans"):
        parts = [arrays[f"{stem}.{field}.npy"] for stem in stems]
        assert {dtype for dtype, _ in parts} == {str(schema.fields[field].dtype)}
        assert [v for _, values in parts for v in values] == rows.fields[field].values.tolist()
    assert [v for stem in stems for v in arrays[f"{stem}.npy"][1]] == rows.tokens.tolist()


def test_we_read_what_a_loop_of_np_save_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    run_in_peers(SAVE, tmp_path / "data", alone=False)
    corpus = open_corpus(tmp_path / "data")
    assert corpus.schema.token_dtype == "int32"
    assert [corpus[i].tolist() for i in range(12)] == [[j * 1000 for j in range(i)] for i in range(12)]
