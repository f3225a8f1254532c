"""Tokenizing: documents in order, marks by policy alone, every engine and every number of workers alike."""

import json

import numpy as np
import pytest

import tokenyard
from tests.real_data import gpt2_json
from tokenyard.converters.engines import Encoded
from tokenyard.converters.tokenize import tokenize
from tokenyard.errors import ConfigError, DataError, SchemaError, VerificationError

EOS = "<|endoftext|>"


@pytest.fixture(scope="session")
def tokenizer():
    return gpt2_json()


@pytest.fixture(scope="session")
def truth(tokenizer):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_file=str(tokenizer), eos_token=EOS)


def write_jsonl(path, texts, **fields):
    lines = [json.dumps({"text": t, **{n: v[i] for n, v in fields.items()}}) for i, t in enumerate(texts)]
    path.write_text("".join(line + "\n" for line in lines))
    return path


def rows(path):
    corpus = tokenyard.open_corpus(path)
    return [corpus[i].tolist() for i in range(len(corpus))]


def test_each_document_is_a_row_that_ends_with_eos(tmp_path, tokenizer, truth):
    texts = ["Hello world", "", "日本語 and 😀\r\n", "def f(x):\n    return x\n"]
    report = tokenize(write_jsonl(tmp_path / "a.jsonl", texts), tmp_path / "out", tokenizer=tokenizer, eos_token=EOS)
    assert rows(tmp_path / "out") == [[*truth.encode(t, add_special_tokens=False), 50256] for t in texts]
    schema = tokenyard.open_corpus(tmp_path / "out").schema
    assert (schema.token_dtype, schema.vocab_size, schema.eos_token_id) == ("uint16", 50257, 50256)
    assert report.num_documents == 4
    assert report.engine in ("gigatoken", "fastokens", "transformers")
    assert report.engine_reasons


def test_bos_and_eos_stand_where_the_policy_says(tmp_path, tokenizer, truth):
    source = write_jsonl(tmp_path / "a.jsonl", ["Hi", "", "you"])
    hi, you = (truth.encode(t, add_special_tokens=False) for t in ("Hi", "you"))
    marks = {"bos_token": EOS, "eos_token": "!"}
    eos = truth.convert_tokens_to_ids("!")
    for bos, end, expected in (
        (True, True, [[50256, *hi, eos], [50256, eos], [50256, *you, eos]]),
        (True, False, [[50256, *hi], [50256], [50256, *you]]),
        (False, False, [hi, [], you]),
    ):
        tokenize(source, tmp_path / "out", tokenizer=tokenizer, add_bos=bos, add_eos=end, overwrite=True, **marks)
        assert rows(tmp_path / "out") == expected


def test_eos_without_a_token_is_refused_with_the_way_out(tmp_path, tokenizer):
    source = write_jsonl(tmp_path / "a.jsonl", ["x"])
    with pytest.raises(ConfigError, match="names no EOS token; give eos_token"):
        tokenize(source, tmp_path / "out", tokenizer=tokenizer)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("engine", ["auto", "transformers", "fastokens", "gigatoken"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_one_digest_for_any_engine_and_number_of_workers(tmp_path, tokenizer, engine, workers, library_texts):
    report = tokenize(
        library_texts,
        tmp_path / "out",
        tokenizer=tokenizer,
        eos_token=EOS,
        engine=engine,
        num_workers=workers,
        prove_share=0.2,
        text={"kind": "txt", "split_bytes": 200_000},
    )
    assert report.digest == expected_digest(library_texts, tokenizer, tmp_path)
    if engine != "transformers" and report.engine != "transformers":
        assert report.counts["proven"] >= report.num_documents // 5


_digests = {}


def expected_digest(folder, tokenizer, tmp_path):
    """The digest of the documents encoded one by one with transformers."""
    if folder not in _digests:
        from transformers import PreTrainedTokenizerFast

        truth = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer), eos_token=EOS)
        truth.model_max_length = int(1e9)
        with tokenyard.CorpusWriter(
            tmp_path / "expected", format="npy", schema=tokenyard.Schema(token_dtype="uint16")
        ) as writer:
            for path in sorted(folder.iterdir()):
                writer.write([*truth.encode(path.read_text("utf-8"), add_special_tokens=False), 50256])
        _digests[folder] = tokenyard.open_corpus(tmp_path / "expected").digest
    return _digests[folder]


@pytest.fixture(scope="session")
def library_texts(tmp_path_factory):
    """Fifty modules of this Python's own library, about a megabyte."""
    import sysconfig
    from pathlib import Path

    folder = tmp_path_factory.mktemp("texts")
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:50]:
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_fields_are_copied_from_the_source(tmp_path, tokenizer):
    source = write_jsonl(tmp_path / "a.jsonl", ["x", "y"], url=["u", None], stars=[3, 4])
    fields = {"url": "string?", "stars": "int64"}
    tokenize(source, tmp_path / "out", tokenizer=tokenizer, eos_token=EOS, text={"fields": fields}, format="mds")
    corpus = tokenyard.open_corpus(tmp_path / "out")
    assert [(corpus.row(i)["url"], corpus.row(i)["stars"]) for i in range(2)] == [("u", 3), (None, 4)]


BROKEN = b'\xef\xbb\xbf{"text": ""}\n{"text": "a"\n{"other": 1}\n{"text": null}\n\n{"text": "last"}'


def test_a_bad_record_stops_the_job_and_names_file_and_line(tmp_path, tokenizer):
    (tmp_path / "a.jsonl").write_bytes(BROKEN)
    with pytest.raises(DataError, match=r"a\.jsonl, line 2.*on_bad_record=skip"):
        tokenize(tmp_path / "a.jsonl", tmp_path / "out", tokenizer=tokenizer, eos_token=EOS)
    assert not (tmp_path / "out").exists()


def test_a_bad_record_is_named_by_its_line_in_the_file_whatever_the_splits(tmp_path, tokenizer):
    source = write_jsonl(tmp_path / "a.jsonl", ["fine"] * 7 + [None, "fine"])
    for options in ({}, {"on_bad_record": "skip", "max_bad_records": 0}):
        with pytest.raises(DataError, match=r"a\.jsonl, line 8: 'text' is null"):
            tokenize(
                source,
                tmp_path / "out",
                tokenizer=tokenizer,
                eos_token=EOS,
                text={"split_bytes": 40},
                num_workers=2,
                **options,
            )


def test_numbers_of_any_type_are_copied_and_those_that_do_not_fit_are_bad_records(tmp_path, tokenizer):
    source = write_jsonl(tmp_path / "a.jsonl", ["x", "y"], score=[0.5, 3], part=[255, 256])
    job = {"tokenizer": tokenizer, "eos_token": EOS, "text": {"fields": {"score": "float32", "part": "uint8"}}}
    report = tokenize(source, tmp_path / "out", on_bad_record="skip", **job)
    assert report.counts["bad:bad_field"] == 1
    row = tokenyard.open_corpus(tmp_path / "out").row(0)
    assert (row["score"], row["part"]) == (0.5, 255)


def test_skipped_records_are_counted_by_kind_and_the_good_rows_are_all_there(tmp_path, tokenizer):
    (tmp_path / "a.jsonl").write_bytes(BROKEN)
    (tmp_path / "empty.jsonl").write_bytes(b"")
    report = tokenize(
        [tmp_path / "a.jsonl", tmp_path / "empty.jsonl"],
        tmp_path / "out",
        tokenizer=tokenizer,
        eos_token=EOS,
        on_bad_record="skip",
    )
    assert {k: v for k, v in report.counts.items() if k.startswith("bad:")} == {
        "bad:broken_json": 1,
        "bad:missing_text": 1,
        "bad:null_text": 1,
    }
    assert report.num_bad_records == 3
    assert [len(r) for r in rows(tmp_path / "out")] == [1, 2]


def test_more_bad_records_than_allowed_stop_the_job(tmp_path, tokenizer):
    (tmp_path / "a.jsonl").write_bytes(BROKEN)
    with pytest.raises(DataError, match=r"more than 2 bad records.*--max-bad-records"):
        tokenize(
            tmp_path / "a.jsonl",
            tmp_path / "out",
            tokenizer=tokenizer,
            eos_token=EOS,
            on_bad_record="skip",
            max_bad_records=2,
        )


@pytest.mark.parametrize(("special_text", "is_one_token"), [("encode", True), ("plain", False)])
def test_special_text_inside_documents_is_counted_and_noted(tmp_path, tokenizer, special_text, is_one_token):
    source = write_jsonl(tmp_path / "a.jsonl", [f"a{EOS}b", "c"])
    report = tokenize(source, tmp_path / "out", tokenizer=tokenizer, eos_token=EOS, special_text=special_text)
    assert (50256 in rows(tmp_path / "out")[0][:-1]) == is_one_token
    assert report.counts[f"special:{EOS}"] == 1
    assert any(EOS in note and special_text in note for note in report.notes)


def test_an_engine_that_lies_is_caught_with_the_place_of_the_document(tmp_path, tokenizer, monkeypatch):
    from tokenyard.converters.engines import fast

    honest = fast.FastokensEngine.encode_batch

    def lying(self, texts):
        encoded = honest(self, texts)
        if any("poison" in t for t in texts):
            return Encoded(ids=encoded.ids ^ 1, lengths=encoded.lengths)
        return encoded

    source = write_jsonl(tmp_path / "a.jsonl", ["fine", "poison"])
    monkeypatch.setattr(fast.FastokensEngine, "encode_batch", lying)
    with pytest.raises(VerificationError, match=r"a\.jsonl, line 1: .*fastokens"):
        tokenize(source, tmp_path / "out", tokenizer=tokenizer, eos_token=EOS, engine="fastokens", prove_share=1.0)
    assert not (tmp_path / "out").exists()


def test_a_token_dtype_too_narrow_for_the_tokenizer_is_refused_before_any_work(tmp_path):
    from tests.real_data import deepseek_json

    source = write_jsonl(tmp_path / "a.jsonl", ["x"])
    path = deepseek_json()
    with pytest.raises(SchemaError, match="uint16 can't hold id 129279"):
        tokenize(source, tmp_path / "out", tokenizer=path, add_eos=False, token_dtype="uint16")
    tokenize(source, tmp_path / "out", tokenizer=path, add_eos=False)
    assert tokenyard.open_corpus(tmp_path / "out").schema.token_dtype == "uint32"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on_bad_record": "ignore"}, "on_bad_record: expected error or skip"),
        ({"prove_share": 2}, "prove_share: expected a share from 0 to 1"),
        ({"text": {"feild": 1}}, "text has no option feild"),
        ({"max_bad_records": -1}, "max_bad_records: expected 0 or more"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, tokenizer, settings, message):
    source = write_jsonl(tmp_path / "a.jsonl", ["x"])
    with pytest.raises(ConfigError, match=message):
        tokenize(source, tmp_path / "out", tokenizer=tokenizer, eos_token=EOS, **settings)


def test_rows_are_exact_int32_arrays_where_these_are_wanted(tmp_path, tokenizer, truth):
    source = write_jsonl(tmp_path / "a.jsonl", ["Hello world"])
    tokenize(source, tmp_path / "out", tokenizer=tokenizer, add_eos=False, token_dtype="int32")
    (shard,) = (tmp_path / "out").glob("*.npy")
    saved = np.load(shard, mmap_mode="r")
    assert saved.dtype == np.int32
    assert saved.tolist() == truth.encode("Hello world")
