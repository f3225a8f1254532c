"""How results are printed: for a person, for a program, into a pipe that closes."""

import json
import os
import re
import subprocess

import numpy as np
import pytest

import tokenyard
from tests.cli.terminals import command, on_a_terminal
from tests.real_data import gpt2_json
from tokenyard.cli.output import CLOSED_PIPE, print_tree

TEXT_IDS = [15496, 995, 198, 220, 27, 60000, 50256]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("output") / "corpus"
    with tokenyard.CorpusWriter(path, format="npy", schema=tokenyard.Schema(token_dtype="uint16")) as writer:
        writer.write(np.array(TEXT_IDS, np.uint16))
        for _ in range(300):
            writer.write(np.arange(200, dtype=np.uint16))
    return path


def test_nested_values_are_lines_further_in(capsys):
    print_tree(
        "made by",
        {
            "job": "pack",
            "options": {"seq_len": 2048, "drop_fields": ["a", "b"], "add_eos": True},
            "none": None,
            "source": {"format": "npy", "provenance": {"job": "tokenize"}},
            "inputs": [{"path": "a"}, {"path": "b"}],
        },
    )
    assert capsys.readouterr().out.splitlines() == [
        "made by",
        "  job  pack",
        "  options",
        "    seq len      2,048",
        "    drop fields  a; b",
        "    add eos      yes",
        "  source",
        "    format  npy",
        "    provenance",
        "      job  tokenize",
        "  inputs 1 of 2",
        "    path  a",
        "  inputs 2 of 2",
        "    path  b",
    ]


def test_info_shows_where_a_corpus_came_from_without_a_dict(corpus, tmp_path):
    tokenyard.convert(corpus, tmp_path / "a", to="mds")
    tokenyard.convert(tmp_path / "a", tmp_path / "b", to="npy")
    said = subprocess.run(command("info", tmp_path / "b"), capture_output=True, text=True, check=True).stdout
    assert "\n  source\n    format  mds\n" in said
    assert "\n    provenance\n      job  convert\n" in said
    assert not re.search(r"[{}]", said)


def test_peek_into_a_file_has_no_color_and_shows_where_tokens_end(corpus):
    arguments = command("peek", corpus, "-t", gpt2_json())
    shown = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    assert shown == "row 0: 7 tokens\nHello│ world│⏎\n│ │<│<60000>│<|endoftext|>\n"


def test_peek_on_a_terminal_shades_tokens_unless_no_color_is_set(corpus):
    shown = on_a_terminal("peek", corpus, "--tokenizer", gpt2_json())
    assert len(set(re.findall(r"\x1b\[48;5;\d+m", shown))) == 2
    assert "│" not in shown
    plain = on_a_terminal("peek", corpus, "--tokenizer", gpt2_json(), NO_COLOR="1")
    assert "Hello│ world│" in plain
    assert not re.search(r"\x1b\[[34]", plain)
    assert "Hello│ world│" in on_a_terminal("peek", corpus, "--tokenizer", gpt2_json(), TERM="xterm-16color")


def test_control_characters_are_shown_and_not_obeyed(tmp_path):
    vocab = json.loads(gpt2_json().read_text())["model"]["vocab"]
    ids = [vocab[name] for name in ("ě", "[", "č", "A")]  # a byte-level vocabulary's names of ESC and CR
    with tokenyard.CorpusWriter(tmp_path / "c", format="npy", schema=tokenyard.Schema(token_dtype="uint16")) as writer:
        writer.write(np.array(ids, np.uint16))
    arguments = command("peek", tmp_path / "c", "-t", gpt2_json())
    assert "␛│[│␍│A" in subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("arguments", [["peek", "--num", 300], ["peek", "--json"], ["info"], ["info", "--json"]])
def test_a_closed_pipe_ends_a_command_without_a_word(corpus, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    name, *options = arguments
    process = subprocess.run(command(name, corpus, *options), stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (process.returncode, process.stderr) == (CLOSED_PIPE, "")
