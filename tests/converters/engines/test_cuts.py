"""A cut that is said to be safe is: on real tokenizers, and on small ones that put every step to work."""

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.converters.engines.conftest import LOAD
from tests.converters.engines.patterns import LLAMA3
from tokenyard.converters.engines import CutRule, NoCutRule, TokenizerSpec, build_truth, derive_cut_rule, load_tokenizer
from tokenyard.converters.engines import cuts as cuts_module

CORPUS = [
    "The cat's hat, don't WON'T; 123 4567 89. x == y != z\n\n\tif (a<b) {\n    return 'it''s';\n}\n" * 3,
    "春眠不觉晓,处处闻啼鸟。夜来风雨声，花落知多少？ Привет, мир! é ﬁ __ ▁▁ ``x``  \n \n\n  \t x  y   z" * 3,
]
PIECES = [
    *("a", "b", "ab", "e", "E", "Foo", "foo", "x", "д", "é", "e\u0301", "\u0301", "\u0338", "ſ", "ﬁ", "①", "Ａ"),
    *(" ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u200b", "▁", "1", "12", "1234"),
    *(".", ",", "'", "'s", "'S", "!", "=", "``", "''", "中", "文", "中文", "，", "。", "👍", "<x>", "<|a|>"),
]


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **options}


def regex_split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def pre_tokenizers(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def normalizers(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def metaspace(**options):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False, **options}


RAW = byte_level(use_regex=False)
MADE = {
    "prefix space": (None, byte_level(add_prefix_space=True)),
    "llama 3": (None, pre_tokenizers(regex_split(LLAMA3), RAW)),
    "removed between": ({"type": "NFC"}, pre_tokenizers(regex_split(LLAMA3, "Removed", invert=True), RAW)),
    "digits": (None, pre_tokenizers({"type": "Digits", "individual_digits": False}, byte_level())),
    "merged": (
        None,
        pre_tokenizers({"type": "Punctuation", "behavior": "MergedWithPrevious"}, {"type": "WhitespaceSplit"}),
    ),
    "words": ({"type": "Lowercase"}, {"type": "Whitespace"}),
    "nfkc": ({"type": "NFKC"}, {"type": "WhitespaceSplit"}),
    "metaspace": (None, metaspace()),
    "metaspace always": (None, metaspace(prepend_scheme="always", split=True)),
    "metaspace never": (None, metaspace(prepend_scheme="never")),
    "prepend": (normalizers({"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")), None),
    "gemma": (replace(" ", "▁"), {**regex_split(" ", "MergedWithPrevious"), "pattern": {"String": " "}}),
    "replace": (normalizers(replace("``", '"'), replace(" {2,}", " ", "Regex")), byte_level()),
    "nothing": (None, None),
    "lookahead": (None, pre_tokenizers(regex_split(r"\w+(?=\s)|\w|\s+$|\s+|[^\w\s]+"), RAW)),
}
ADDED = {
    "plain": [("<x>", {}), ("<|a|>", {"special": False})],
    "hungry": [("<x>", {"lstrip": True, "rstrip": True}), ("  ", {"normalized": True}), ("ab", {"single_word": True})],
}


@cache
def made_spec(name, added, folder):
    """Train a small BPE behind the steps named. Where a step of its own makes ▁, no token holds one inside."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

    normalizer, pre_tokenizer = MADE[name]
    steps = {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}
    blank = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}}
    tokenizer = Tokenizer.from_str(json.dumps({**blank, **steps}))
    if "▁" in json.dumps(steps, ensure_ascii=False):
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.model = models.BPE(unk_token="<unk>", fuse_unk=True)
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=12,
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken(text, **{"normalized": False, **options}) for text, options in ADDED[added]])
    path = folder / f"{name} {added}.json"
    path.write_text(json.dumps({**json.loads(tokenizer.to_str()), **steps}))
    return load_tokenizer(path)


def assert_no_cut_changes_ids(spec: TokenizerSpec, rule: CutRule, texts: list[str]) -> int:
    """Cut each text wherever the rule lets; return the number of cuts."""
    truth = build_truth(spec)
    whole, parts = [], []
    for text in texts:
        for point in range(1, len(text)):
            resumed = rule.resume(text, point)
            if resumed is not None:
                whole.append(text)
                parts.append((text[:point], text[resumed:]))
    right = truth.encode_batch(whole).split()
    found = truth.encode_batch([part for pair in parts for part in pair]).split()
    for number, ids in enumerate(right):
        joined = np.concatenate(found[2 * number : 2 * number + 2])
        assert ids.tolist() == joined.tolist(), parts[number]
    return len(whole)


TEXTS = st.lists(st.lists(st.sampled_from(PIECES), min_size=2, max_size=14).map("".join), min_size=20, max_size=20)


def check_many_texts(spec, examples):
    rule = cached_rule(spec)
    assert isinstance(rule, CutRule), rule.reason

    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(texts=TEXTS)
    def check(texts):
        assert_no_cut_changes_ids(spec, rule, texts)

    check()


@pytest.mark.parametrize("name", LOAD)
def test_cuts_of_real_tokenizers_change_no_id(specs, name):
    check_many_texts(specs[name], examples=8)


@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("name", MADE)
def test_cuts_behind_any_steps_change_no_id(tmp_path_factory, name, added):
    check_many_texts(made_spec(name, added, tmp_path_factory.getbasetemp()), examples=4)


@cache
def cached_rule(spec):
    return derive_cut_rule(spec, build_truth(spec))


@pytest.mark.parametrize(
    ("name", "yes", "no"),
    [
        ("gpt2", ["e ", "e\n", ". ", "中，", "é ", "1 "], ["ee", "\ne", " e", "  ", "\n\n", "12"]),
        ("anthropic", ["e ", "e\n", "中，"], ["é ", "ee", "e\u0301", "中文"]),
        ("deepseek", ["e ", "。中", "中，"], ["中文", ".\n", "12"]),
        ("minilm", ["e ", "中文", "\n\n", "!?"], ["ef", "é "]),
    ],
)
def test_where_real_tokenizers_can_be_cut(specs, name, yes, no):
    rule = cached_rule(specs[name])
    assert [pair for pair in yes if rule.resume(f"x{pair}y", 2) != 2] == []
    assert [pair for pair in no if rule.resume(f"x{pair}y", 2) is not None] == []


def test_real_text_has_cuts_all_over(spec):
    rule = cached_rule(spec)
    text = "Some words, and then a line.\nAnother one, with don't and x = 5;\n\n    indented text here\n" * 20
    assert assert_no_cut_changes_ids(spec, rule, [text[:800]]) > 100


def test_a_part_behind_a_prefix_leaves_out_the_space_that_the_prefix_becomes(tmp_path_factory):
    spec = made_spec("prepend", "plain", tmp_path_factory.getbasetemp())
    rule = cached_rule(spec)
    assert rule.resume("one two", 3) == 4
    assert rule.resume("one<x> two", 6) is None
    assert rule.resume("one <x>two", 3) is None
    assert rule.resume("one ", 3) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "the pre-tokenizer UnicodeScripts is not modelled"),
        ({"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}, "the normalizer Strip is not"),
        ({"pre_tokenizer": regex_split(r"(?<=a)b")}, "a group of this kind"),
        ({"pre_tokenizer": pre_tokenizers(RAW, regex_split("a"))}, "ByteLevel in front of another is not modelled"),
        ({"normalizer": {"type": "Prepend", "prepend": "x"}}, "the prefix 'x' is not what a space becomes"),
    ],
)
def test_steps_that_are_not_modelled_give_no_rule_and_say_so(gpt2, tmp_path, change, message):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(gpt2.json), **change}))
    spec = load_tokenizer(path)
    rule = derive_cut_rule(spec, build_truth(spec))
    assert isinstance(rule, NoCutRule)
    assert message in rule.reason
    assert rule.resume("a b", 1) is None


def test_a_slow_tokenizer_has_no_rule(slow):
    rule = derive_cut_rule(slow, build_truth(slow))
    assert isinstance(rule, NoCutRule)
    assert "is a slow tokenizer, whose steps can't be read" in rule.reason


def test_a_rule_that_does_not_hold_on_the_canary_is_thrown_away(gpt2, monkeypatch):
    monkeypatch.setattr(cuts_module.CutRule, "resume", lambda self, text, point: point)
    rule = derive_cut_rule(gpt2, build_truth(gpt2))
    assert isinstance(rule, NoCutRule)
    assert "were thought to be safe, but " in rule.reason


def test_models_that_look_at_whole_pieces_are_cut_only_between_pieces(tmp_path_factory):
    spec = made_spec("nothing", "plain", tmp_path_factory.getbasetemp())
    found = json.loads(spec.json)
    assert CutRule(found, None).resume("鸟z", 1) == 1
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"):
        changed = {**found, "model": {**found["model"], key: True}}
        assert CutRule(changed, None).resume("鸟z", 1) is None
