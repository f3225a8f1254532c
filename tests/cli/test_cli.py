"""The command line, as a user types it: what it prints, what it makes, and its exit codes."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import tokenyard
from tests.formats import mds_by_hand
from tests.real_data import gpt2_json

EOS = "<|endoftext|>"


def run(*args, code=0):
    """Run `tokenyard` with arguments; returns standard output, or standard error when it should fail."""
    script = Path(sys.executable).parent / "tokenyard"
    process = subprocess.run([script, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert process.returncode == code, process.stdout + process.stderr
    assert "Traceback" not in process.stderr
    return process.stdout if code == 0 else process.stdout + process.stderr


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "corpus"
    schema = tokenyard.Schema(token_dtype="uint16", vocab_size=50257, fields={"source": "string"})
    with tokenyard.CorpusWriter(path, format="npy", schema=schema) as writer:
        for i in range(3):
            writer.write(np.arange(i * 10), source=f"file {i}")
    return path


def test_help_names_every_command_and_each_command_has_an_example():
    listed = run("--help")
    for command in (
        "tokenize",
        "pack",
        "convert",
        "split",
        "merge",
        "filter",
        "index",
        "verify",
        "info",
        "peek",
        "report",
        "order",
        "bench",
        "formats",
        "schema",
    ):
        assert command in listed
        assert "Example: " in run(command, "--help")


def test_version_is_that_of_the_package():
    assert run("--version").split() == ["tokenyard", version("tokenyard")]
    assert tokenyard.__version__ == version("tokenyard")


def test_the_format_to_write_has_two_names_in_every_job(corpus, tmp_path):
    for flag in ("--to", "--format"):
        run("convert", corpus, tmp_path / f"converted{flag}", flag, "mds")
        run("pack", corpus, tmp_path / f"packed{flag}", "--seq-len", 3, "--drop-field", "source", flag, "mds")
        for kind in ("converted", "packed"):
            assert tokenyard.open_corpus(tmp_path / f"{kind}{flag}").format == "mds"
        assert flag in run("tokenize", "--help")


def test_rows_are_shuffled_split_merged_and_filtered(corpus, tmp_path):
    report = json.loads(run("convert", corpus, tmp_path / "shuffled", "--to", "mds", "--shuffle", 3, "--json"))
    assert report["source_digest"] == tokenyard.open_corpus(corpus).digest
    against = ("--against", corpus, "--unordered", "--json")
    assert json.loads(run("verify", tmp_path / "shuffled", *against))["ok"]
    run("split", corpus, tmp_path / "parts", "--part", "validation=1", "--seed", 2)
    parts = [tmp_path / "parts" / name for name in ("train", "validation")]
    assert [len(tokenyard.open_corpus(part)) for part in parts] == [2, 1]
    run("merge", *parts, tmp_path / "merged", "--to", "parquet")
    assert json.loads(run("verify", tmp_path / "merged", *against))["ok"]
    condition = ("--where", "source == 'file 1'")
    report = json.loads(run("filter", tmp_path / "merged", tmp_path / "one", *condition, "--min-tokens", 1, "--json"))
    assert (report["num_rows"], report["num_tokens"], report["num_dropped_rows"]) == (1, 10, 2)
    said = run("verify", tmp_path / "one", *against, code=1)
    assert "1 rows here, 3 rows there" in said
    said = run("verify", tmp_path / "one", "--unordered", code=2)
    assert "give against, and not quick" in said
    assert "merge takes its sources and then the corpus to make" in run("merge", corpus, code=2)
    assert "missing DST" in run("filter", corpus, code=2)


def test_rows_are_split_in_shares_of_the_work_from_yaml(corpus, tmp_path):
    file = tmp_path / "split.yaml"
    file.write_text(f"src: {corpus}\ndst: {tmp_path / 'parts'}\nparts: {{v: 1}}\nrest: t\n")
    for k in (2, 1):
        report = json.loads(run("split", "--config", file, "--task", f"{k}/2", "--json"))
    assert report["num_open_tasks"] == 0
    run("split", "--config", file, "--finish")
    assert [len(tokenyard.open_corpus(tmp_path / "parts" / name)) for name in "tv"] == [2, 1]


def test_convert_verify_and_info_go_together(corpus, tmp_path):
    report = json.loads(run("convert", corpus, tmp_path / "mds", "--to", "mds", "-o", "compression=zstd", "--json"))
    info = json.loads(run("info", tmp_path / "mds", "--json"))
    assert report["source_digest"] == report["digest"] == info["digest"] == tokenyard.open_corpus(corpus).digest
    assert (info["format"], info["rows"], info["tokens"], info["shards"]) == ("mds", 3, 30, 1)
    assert info["token_dtype"] == "uint16"
    assert info["fields"] == {"source": "string"}
    assert json.loads(run("verify", tmp_path / "mds", "--against", corpus, "--json"))["ok"]
    assert info["digest"] in run("info", tmp_path / "mds")


def test_verify_exits_with_1_when_rows_differ(corpus, tmp_path):
    with tokenyard.CorpusWriter(tmp_path / "b", format="npy", schema=tokenyard.Schema()) as writer:
        writer.write([1])
    assert "differs from" in run("verify", tmp_path / "b", "--against", corpus, code=1)


def test_wrong_usage_exits_with_2_and_says_the_way_out(corpus, tmp_path):
    assert "registered are npy" in run("convert", corpus, tmp_path / "x", "--to", "nope", code=2).replace(
        "mds, npy", "npy"
    )
    assert "missing --to" in run("convert", corpus, tmp_path / "x", code=2)
    assert "expected key=value" in run("convert", corpus, tmp_path / "x", "--to", "mds", "-o", "zstd", code=2)
    assert "no such file or folder" in run("info", tmp_path / "nothing", code=2)
    assert "No such option" in run("info", corpus, "--nope", code=2)
    assert "pass --overwrite" in run("convert", corpus, corpus, "--to", "mds", code=2)


def test_peek_refuses_rows_that_are_not_there(corpus):
    for row in (3, -4):
        assert f"--row {row} is not within the 3 rows" in run("peek", corpus, "--row", row, code=2)
    assert json.loads(run("peek", corpus, "--row", -1, "--json"))[0]["row"] == 2


def test_damaged_data_exits_with_1(corpus, tmp_path):
    run("convert", corpus, tmp_path / "npy", "--to", "npy")
    shard = tmp_path / "npy" / tokenyard.open_corpus(tmp_path / "npy").manifest.shards[0].name
    shard.write_bytes(shard.read_bytes()[:-2])
    said = run("convert", tmp_path / "npy", tmp_path / "mds", "--to", "mds", code=1)
    assert shard.name in said.replace("\n", "")


def test_texts_become_packed_rows_and_peek_shows_them(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "Hello world", "url": "u"}\n{"text": "again and again"}\n')
    tokenizer = gpt2_json()
    report = json.loads(
        run("tokenize", tmp_path / "a.jsonl", tmp_path / "docs", "-t", tokenizer, "--eos-token", EOS,
            "--field", "url=string?", "--json")
    )  # fmt: skip
    assert report["num_documents"] == 2
    assert report["engine_reasons"]
    (shown,) = json.loads(run("peek", tmp_path / "docs", "--tokenizer", tokenizer, "--json"))
    assert shown["text"] == f"Hello world{EOS}"
    assert shown["url"] == "u"
    assert "Hello" in run("peek", tmp_path / "docs", "--tokenizer", tokenizer)
    packed = json.loads(
        run("pack", tmp_path / "docs", tmp_path / "packed", "--seq-len", 3, "--drop-field", "url", "--json")
    )
    assert (packed["num_rows"], packed["num_dropped_tokens"]) == (2, 1)
    info = json.loads(run("info", tmp_path / "packed", "--json"))
    assert (info["layout"], info["seq_len"]) == ("packed", 3)


def test_formats_lists_all_six_with_their_options():
    found = {f["name"]: f for f in json.loads(run("formats", "--json"))}
    assert list(found)[:6] == ["mds", "npy", "webdataset", "parquet", "jsonl", "csv"]
    assert "compression" in found["mds"]["options"]["properties"]
    assert "webdataset" in run("formats")


def test_schema_prints_the_json_schema_of_the_yaml(tmp_path):
    assert "global_batch_size" in run("schema")
    assert "seq_len" in run("schema", "--of", "pack")
    assert "expected one of train, convert, filter" in run("schema", "--of", "nope", code=2)
    run("schema", "-o", tmp_path / "schema.json")
    assert json.loads((tmp_path / "schema.json").read_text())


def test_index_makes_a_foreign_corpus_ours(tmp_path):
    np.save(tmp_path / "tokens_0.npy", np.arange(5, dtype=np.int32))
    run("index", tmp_path)
    assert json.loads(run("info", tmp_path, "--json"))["digest"].startswith("ty1:")


def test_info_counts_the_rows_of_a_folder_that_holds_text_alone(tmp_path):
    mds_by_hand.dataset(tmp_path / "texts", {"text": "str"}, [{"text": b"one"}, {"text": b"two"}])
    found = json.loads(run("info", tmp_path / "texts", "--json"))
    assert (found["rows"], found["tokens"]) == (2, None)
    assert "no column holds token ids, there are text (str)" in found["problem"]
