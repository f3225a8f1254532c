"""`tokenyard doctor`, as a user types it."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from tests.corpora import random_rows, write_corpus
from tokenyard.cli.app import app
from tokenyard.errors import ConfigError, NotACorpusError


@pytest.fixture
def config(tmp_path):
    write_corpus(tmp_path / "c", random_rows(seed=1, num_rows=512, longest=40))
    told = {"data": {"path": str(tmp_path / "c"), "sample": {"seq_len": 16}}, "order": {"global_batch_size": 8}}
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump(told))
    return path


def doctor(*arguments):
    result = CliRunner().invoke(app, ["doctor", *map(str, arguments)], catch_exceptions=False, env={"COLUMNS": "200"})
    return result.exit_code, result.stdout


@pytest.mark.alone
def test_a_job_that_is_fed_ends_with_0_and_one_page(config):
    code, said = doctor("-c", config, "--step-ms", 200, "--seconds", 2)
    assert code == 0, said
    assert "the node takes  40.0 samples/s, 640 tokens/s at 200 ms a step" in said
    assert "one batch over and over" in said
    assert "\nfed: 1 GPU at 200 ms takes 40.0 samples/s; num_threads: 2 gives " in said
    assert "put into the YAML" not in said
    assert len(said.splitlines()) < 40


@pytest.mark.alone
def test_a_job_that_is_not_fed_ends_with_1_and_the_limit(config):
    code, said = doctor("-c", config, "--step-ms", 0.00001, "--seconds", 2)
    assert code == 1, said
    assert "\nnot fed: 1 GPU at 1e-05 ms takes 800,000,000 samples/s; " in said
    assert "the limit is " in said
    assert "  to change: " in said


def test_without_a_step_time_the_shortest_step_is_told_and_json_holds_all(config):
    code, said = doctor("-c", config, "--seconds", 2, "--json", "--warm")
    found = json.loads(said)
    assert code == 0
    assert found["fed"] is None
    assert found["check"]["step_seconds"] > 0
    assert " samples/s" in found["sentence"]
    assert (found["limit"], found["changes"]) == (None, {})
    assert any(
        note.endswith("is told with --step-ms alone: both depend on what a step computes.") for note in found["notes"]
    )


@pytest.mark.parametrize(
    ("arguments", "error", "expected"),
    [
        ([], ConfigError, "name the YAML of a training run by one of --config and --preflight"),
        (["-c", "CONFIG", "--preflight", "CONFIG"], ConfigError, "by one of --config and --preflight"),
        (["-c", "CONFIG", "--ranks-per-node", "8", "--full"], ConfigError, "--ranks-per-node, --full go with --pre"),
        (["--preflight", "CONFIG", "--step-ms", "120"], ConfigError, "--step-ms goes with --config alone"),
        (["--config", "CONFIG", "--step-ms", "-1"], ConfigError, "step_ms: expected the milliseconds of a step"),
        (["--config", "CONFIG", "--gpus", "0"], ConfigError, "gpus: expected a whole number from 1 on"),
        (["--config", "NOWHERE"], NotACorpusError, "nowhere"),
    ],
)
def test_wrong_use_is_refused(config, tmp_path, arguments, error, expected):
    nowhere = tmp_path / "nowhere.yaml"
    nowhere.write_text("data: {path: nowhere}\norder: {global_batch_size: 8}\n")
    named = {"CONFIG": str(config), "NOWHERE": str(nowhere)}
    with pytest.raises(error, match=expected):
        doctor(*(named.get(word, word) for word in arguments))
