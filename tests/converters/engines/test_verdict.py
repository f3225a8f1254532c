"""The verdict on the canary, kept: it saves time, and can do nothing else."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tokenyard.converters.engines import build_engine, build_truth, canary, cuts, derive_cut_rule, verdict
from tokenyard.converters.engines.base import from_lists

TEXTS = ["a fox", "12 34", ""]


class Other:
    """An engine that is always wrong."""

    name = "gigatoken"

    def encode_batch(self, texts):
        return from_lists([[7] for _ in texts])


@pytest.fixture
def asked(monkeypatch):
    """The texts that engines were really asked about, by call."""
    calls = []
    real = verdict.agree
    monkeypatch.setattr(
        verdict, "agree", lambda engine, truth, texts: calls.append(texts) or real(engine, truth, texts)
    )
    return calls


def find(spec, engine=None, special_text="encode", texts=TEXTS):
    truth = build_truth(spec, special_text)
    return verdict.disagreement_of(engine or build_engine("gigatoken", spec), truth, spec, special_text, texts)


def test_an_engine_that_agreed_is_not_asked_again(gpt2, asked):
    texts = canary(gpt2)
    assert [find(gpt2, texts=texts), find(gpt2, texts=texts)] == [None, None]
    assert asked == [texts]


@pytest.mark.parametrize("damage", [b"", b"agree", b"\0" * 100], ids=["empty", "cut", "zeros"])
def test_a_damaged_verdict_counts_nothing_and_is_made_anew(gpt2, asked, alone, damage):
    find(gpt2)
    (kept,) = [path for path in alone.rglob("*") if path.is_file()]
    whole = kept.read_bytes()
    kept.write_bytes(damage)
    assert find(gpt2) is None
    assert len(asked) == 2
    assert kept.read_bytes() == whole


def test_a_cache_that_can_not_be_written_costs_time_and_nothing_else(gpt2, asked, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "file" / "cache"))
    assert [find(gpt2), find(gpt2)] == [None, None]
    assert len(asked) == 2


def test_a_disagreement_is_never_kept(gpt2, asked, alone):
    for _ in range(2):
        assert find(gpt2, Other()).found == (7,)
    assert len(asked) == 2
    assert not [path for path in alone.rglob("*") if path.is_file()]


def test_what_was_found_of_one_engine_says_nothing_of_another(gpt2, asked):
    find(gpt2)
    assert find(gpt2, Other()) is not None
    assert find(gpt2, build_engine("fastokens", gpt2)) is None
    assert len(asked) == 3


@pytest.mark.parametrize("changed", ["tokenizer", "policy", "texts", "version", "machine", "code"])
def test_a_verdict_holds_only_for_what_it_was_found_for(gpt2, asked, alone, monkeypatch, changed):
    find(gpt2)
    spec, policy, texts = gpt2, "encode", TEXTS
    if changed == "tokenizer":
        spec = replace(gpt2, fingerprint="0" * 64)
    elif changed == "policy":
        policy = "plain"
    elif changed == "texts":
        texts = [*TEXTS, "more"]
    elif changed == "version":
        monkeypatch.setattr(verdict.metadata, "version", lambda package: "99")
    elif changed == "code":
        changed_code = shutil.copytree(Path(verdict.__file__).parent, alone / "code")
        (changed_code / "stages.py").write_text("")
        monkeypatch.setattr(verdict, "__file__", str(changed_code / "verdict.py"))
    else:
        monkeypatch.setattr(verdict.platform, "machine", lambda: "abacus")
    find(spec, None, policy, texts)
    assert len(asked) == 2


def test_cuts_that_were_seen_to_hold_are_not_tried_again(gpt2, monkeypatch):
    tried = []
    real = cuts._find_wrong_cut
    monkeypatch.setattr(cuts, "_find_wrong_cut", lambda *a: tried.append(a) or real(*a))
    rules = [derive_cut_rule(gpt2, build_truth(gpt2, policy)) for policy in ("encode", "encode", "plain")]
    assert [rule.resume("one two", 3) for rule in rules] == [3, 3, 3]
    assert len(tried) == 2  # once for each policy


def test_a_wrong_cut_is_never_kept(gpt2, alone, monkeypatch):
    monkeypatch.setattr(cuts, "_find_wrong_cut", lambda *a: "'a' | 'b'")
    for _ in range(2):
        assert "'a' | 'b' is encoded otherwise" in derive_cut_rule(gpt2, build_truth(gpt2)).reason
    assert not [path for path in alone.rglob("*") if path.is_file()]
