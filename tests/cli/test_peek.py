"""The command peek: by row, by range, by step and rank, by text; with colors on a terminal, plain elsewhere."""

import json
import math
import re
import sys

import pytest
import yaml

from tests.cli.commands import run
from tests.cli.terminals import on_a_terminal
from tests.corpora import write_corpus
from tests.looking.corpora import hostile
from tests.real_data import gpt2_json
from tests.runs import packed_rows
from tests.strict import strict
from tokenyard.errors import ConfigError, MissingDependencyError

HELLO = [15496, 995, 50256]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("peek")
    write_corpus(home / "rows", [[i, i + 1] for i in range(10)])
    write_corpus(home / "text", [[1], HELLO], eos_token_id=50256, loss_mask=("uint8[]", [[1], [0, 1, 1]]))
    hostile(home / "hostile")
    packed_rows(home / "packed", "npy", pad=True)
    sample = {"mode": "rows", "mask_boundaries": True}
    run_of = {"data": {"path": str(home / "packed"), "sample": sample}, "order": {"global_batch_size": 4}}
    (home / "train.yaml").write_text(yaml.safe_dump(run_of))
    return home


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ([], [0]),
        (["--row", "3"], [3]),
        (["--row", "-2", "--num", "5"], [8, 9]),
        (["--row", "2:5"], [2, 3, 4]),
        (["--row", "-3:-1"], [7, 8]),
        (["--row", "8:99"], [8, 9]),
    ],
)
def test_rows_are_shown_by_number_and_by_range(home, arguments, rows):
    found = json.loads(run("peek", home / "rows", *arguments, "--json"))
    assert [(row["row"], row["tokens"]) for row in found] == [(i, [i, i + 1]) for i in rows]
    shown = run("peek", home / "rows", *arguments)
    assert shown == "".join(f"row {i}: 2 tokens\n{i} {i + 1}\n" for i in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--row", "x"], r"--row: expected a row or A:B, as 10 or 10:20, found 'x'"),
        (["--row", "5:5"], r"--row 5:5: there is no row from 5 on before 5; give A:B with A below B"),
        (["--row", "1:3", "--num", "2"], r"--row 1:3 says how many rows already; leave --num out"),
        (["--row", "10"], r"--row 10 is not within the 10 rows"),
        (["--rank", "0"], r"--rank is about --step, which is not given; add it, or leave --rank out"),
        (["--config", "x.yaml"], r"--config is about --step, which is not given"),
        (["--step", "1"], r"--step needs --config: which rows a step takes depends on the order of a run"),
        (["--step", "1", "--row", "1"], r"--step and --row ask for different rows; give one of them"),
        (["--step", "1", "--search", "x"], r"--step and --search ask for different rows"),
    ],
)
def test_what_does_not_go_together_is_refused(home, arguments, message):
    with pytest.raises(ConfigError, match=message):
        run("peek", home / "rows", *arguments)


def test_a_corpus_or_a_run_is_needed():
    with pytest.raises(ConfigError, match="expected the PATH of a corpus, or --step with --config; found neither"):
        run("peek")


def test_documents_and_padding_stand_apart(home):
    shown = run("peek", home / "packed", "--num", 40)
    assert re.search(r"^-- document 0: \d tokens\n\d+", shown, re.MULTILINE)
    assert re.search(r"^-- padding: (\d) tokens\n(0 ?)+$", shown, re.MULTILINE)


def test_masked_tokens_are_in_brackets_where_there_are_no_colors(home):
    shown = run("peek", home / "text", "--row", 1, "-t", gpt2_json())
    assert shown == "row 1: 3 tokens, masked by loss_mask: ⟦...⟧\n⟦Hello⟧│ world│<|endoftext|>\n"


def test_masked_and_special_tokens_have_styles_on_a_terminal(home):
    shown = on_a_terminal("peek", home / "text", "--row", 1, "-t", gpt2_json())
    assert re.search(r"\x1b\[2;9;[\d;]*mHello", shown)
    assert re.search(r"\x1b\[1;35;[\d;]*m<\|endoftext\|>", shown)
    assert "⟦" not in shown


def test_what_rows_hold_does_not_act(home):
    shown = run("peek", home / "hostile")
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert r"source = '\x1b[31mred\x07</pre><script>" in shown
    on_terminal = on_a_terminal("peek", home / "hostile")
    assert not re.search(r"\x1b\[31m|\x07|\u202e", on_terminal)


def test_fields_that_are_not_finite_are_strings_in_json_as_jsonl_has_them(tmp_path):
    odd, names = [math.nan, math.inf, -math.inf, 1.5], ["NaN", "Infinity", "-Infinity", 1.5]
    kinds = {"wide": ("float64", odd), "narrow": ("float32", odd), "many": ("float32[]", [odd] * 4)}
    write_corpus(tmp_path / "npy", [[i] for i in range(4)], **kinds)
    run("convert", tmp_path / "npy", tmp_path / "jsonl", "--to", "jsonl")
    (shard,) = (tmp_path / "jsonl").glob("*.jsonl")
    stored = [strict(line) for line in shard.read_text().splitlines()]
    for path in (tmp_path / "npy", tmp_path / "jsonl"):
        found = strict(run("peek", path, "--num", 4, "--json"))
        assert [(row["wide"], row["narrow"], row["many"]) for row in found] == [(name, name, names) for name in names]
        assert [{name: row[name] for name in stored[0]} for row in found] == stored


def test_a_text_is_searched_and_marked(home):
    shown = run("peek", home / "text", "--search", "world", "-t", gpt2_json())
    assert "row 1: 3 tokens" in shown
    assert "│» world«│" in shown
    assert shown.endswith("found in 1 of rows 0 .. 1, 4 tokens, where the corpus ends\n")
    assert re.search(
        r"\x1b\[1;7;33;[\d;]*m world", on_a_terminal("peek", home / "text", "--search", "world", "-t", gpt2_json())
    )


def test_a_search_says_how_far_it_went_and_where_to_go_on(home):
    shown = run("peek", home / "rows", "--search", "7 8", "--within", 6)
    assert shown == "not found in rows 0 .. 2, 6 tokens; go on with --row 3\n"
    shown = run("peek", home / "rows", "--search", "7 8", "--row", 3)
    assert shown == "row 7: 2 tokens\n»7 8«\nfound in 1 of rows 3 .. 7, 10 tokens; go on with --row 8\n"
    found = json.loads(run("peek", home / "rows", "--search", "7 8", "--json"))
    assert found["hits"] == [{"row": 7, "start": 0, "stop": 2}]
    assert (found["first_row"], found["next_row"], found["num_tokens"], found["is_done"]) == (0, 8, 16, False)


def test_a_step_is_shown_slot_by_slot(home):
    shown = run("peek", "--config", home / "train.yaml", "--step", 2, "--world-size", 2, "--rank", 1)
    assert shown.startswith("step 2 of epoch 0, 2 ranks\nslot 2, rank 1, micro-batch 0: sample ")
    assert len(re.findall(r"^slot", shown, re.MULTILINE)) == 2
    assert "masked by labels: ⟦...⟧" in shown
    found = json.loads(run("peek", "--config", home / "train.yaml", "--step", 2, "--json"))
    order = json.loads(run("order", "--config", home / "train.yaml", "--step", 2, "--json"))
    assert [{k: v for k, v in slot.items() if k != "input"} for slot in found["slots"]] == order["slots"]
    assert all(len(slot["input"]["tokens"]) == len(slot["input"]["masked"]) == 12 for slot in found["slots"])


def test_a_missing_torch_is_said(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("tokenyard.datasets")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingDependencyError, match=r"tokenyard peek --step needs torch: pip install"):
        run("peek", "--config", home / "train.yaml", "--step", 2)


def test_the_corpus_of_a_run_may_lie_elsewhere(home, tmp_path):
    run("convert", home / "packed", tmp_path / "moved", "--to", "parquet")
    here = run("peek", "--config", home / "train.yaml", "--step", 1)
    there = run("peek", tmp_path / "moved", "--config", home / "train.yaml", "--step", 1)
    names = re.compile(r"(packed|moved|shard-[\w.-]+)")
    assert names.sub("", there) == names.sub("", here)
