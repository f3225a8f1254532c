"""`tokenyard order`, as a user types it: what it prints, what it says as JSON, and its errors."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import end
from tests.runs import ROWS, RUNS, open_run, packed_rows, settings, write_corpora
from tokenyard.config import TrainConfig
from tokenyard.datasets.occurrences import occurrences
from tokenyard.datasets.receipt import receipt
from tokenyard.datasets.run_report import run_report
from tokenyard.datasets.step_digest import run_digest, step_digests


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def order(home, tmp_path, monkeypatch, capsys):
    """Run `tokenyard order` with settings, or a run's name, and arguments; returns standard output, or the error."""

    def run(name, *args, code=0):
        path = tmp_path / "train.yaml"
        config = name if isinstance(name, TrainConfig) else settings(home, **RUNS[name])
        path.write_text(yaml.safe_dump(config.model_dump(exclude_defaults=True)))
        run.printed, err = end(monkeypatch, capsys, "order", "--config", path, *args, code=code)
        return err if code else run.printed

    return run


def words(line):
    return line.split()


def test_the_plan_tells_samples_steps_segments_and_epochs(order, home):
    said = order("weights", "--steps", 9)
    batches, dataset = open_run(settings(home, **RUNS["weights"]))
    web, code = (dataset.num_samples_of(k) for k in range(2))
    lines = list(map(words, said.splitlines()))
    assert ["samples", "web", f"{web},", "code", str(code)] in lines
    assert ["steps", "an", "epoch", str(batches.epoch_range(0)[1])] in lines
    assert ["5", "8", "8", "drop", "block", "7", "4", "8", "8", "web:0.2", "code:0.8"] in lines
    (of_web,) = [line for line in lines if line[:1] == ["web"]]
    taken, _ = run_report(batches, dataset, 9).sources
    assert of_web[1:5] == [f"{taken.samples}", f"{taken.tokens:.0f}", "47.7778%", f"{taken.share_samples:.4%}"]
    assert of_web[-1] == "repeat"
    assert "digest" not in said


def test_the_plan_is_told_of_an_epoch_or_of_10_000_steps_without_end_or_up_to_the_end(order, home):
    one, endless, ending = (json.loads(order(name, "--json")) for name in ("windows", "ramp", "ending"))
    assert one["steps"] == one["steps_per_epoch"] == one["samples"]["web"] // 8
    assert one["run_samples"] == one["sources"][0]["samples"] == one["steps"] * 8
    assert one["segments"][0]["order"]["seed"] == 7
    assert [segment["global_batch_size"] for segment in endless["segments"]] == [8, 16, 4]
    assert (ending["ended_by"], ending["sources"][1]["at_end"]) == ("code", "stop")
    assert f"before step {ending['end']}, by source code" in order("ending", "--steps", 1)
    assert "stop after 2" in order("ending")


def test_a_mixture_without_end_is_told_for_10_000_steps(order, home):
    config = settings(home, mixture=True)
    said = json.loads(order(config, "--json"))
    assert (said["steps"], said["steps_per_epoch"]) == (10_000, None)
    assert sum(source["share_samples"] for source in said["sources"]) == pytest.approx(1)
    assert "no end" in order(config)


def test_a_step_is_told_slot_by_slot(order, home):
    said = json.loads(order("mixture", "--step", 4, "--world-size", 2, "--json"))
    batches, dataset = open_run(settings(home, **RUNS["mixture"]), 2)
    expected = receipt(batches, dataset, 4)
    assert [slot["sample"] for slot in said["slots"]] == [slot.sample for slot in expected.slots]
    assert said["slots"][3]["pieces"][0] == vars(expected.slots[3].pieces[0])
    assert (said["step"], said["epoch"], said["world_size"], "digest" in said) == (4, 0, 2, False)
    of_one = json.loads(order("mixture", "--step", 4, "--world-size", 2, "--rank", 1, "--json"))
    assert of_one["slots"] == said["slots"][4:]
    lines = order("mixture", "--step", 4, "--world-size", 2, "--rank", 1).splitlines()
    assert len(lines) == 5 + 4
    slot = expected.slots[4]
    assert words(lines[5])[:7] == ["4", "1", "0", slot.source, "0", str(slot.sample), f"{slot.start}..{slot.stop}"]
    assert slot.pieces[0].shard in lines[5]


def test_padding_and_rows_without_tokens_are_told(order):
    plan = json.loads(order("padded", "--json"))
    lines = order("padded", "--step", plan["steps"] - 1).splitlines()
    assert sum(line.endswith("  padding") for line in lines) == -plan["samples"]["web"] % 16 > 0
    assert any(words(line)[7:] == ["-", "-", "-"] for s in range(9) for line in order("rows", "--step", s).splitlines())


def test_documents_of_packed_rows_are_numbered_in_their_rows(order, tmp_path):
    packed_rows(tmp_path / "web", "npy", pad=True)
    config = settings(tmp_path, sample={"mode": "rows", "seq_len": None})
    said = json.loads(order(config, "--step", 0, "--json"))
    slot = next(slot for slot in said["slots"] if len(slot["pieces"]) > 1)
    numbers = [piece["document"] for piece in slot["pieces"]]
    assert f"{slot['sample']}/{numbers[0]}-{numbers[-1]}" in order(config, "--step", 0)


def test_a_row_is_told_with_its_steps_and_what_is_left_out(order, home):
    said = json.loads(order("mixture", "--row", 5, "--source", "code", "--epochs", "1:3", "--json"))
    expected = occurrences(*open_run(settings(home, **RUNS["mixture"])), 5, "code", [1, 2])
    assert [epoch["epoch"] for epoch in said["epochs"]] == [1, 2]
    assert said["epochs"][0]["seen"] == [vars(o) for o in expected.epochs[0].seen]
    text = order("mixture", "--row", 5, "--source", "code", "--epochs", 3)
    assert ["found", "by", "arithmetic"] in map(words, text.splitlines())
    for o in expected.epochs[0].seen:
        line = ["1", *map(str, (o.step, o.slot, o.sample)), f"{o.start}..{o.stop}"]
        assert line in map(words, text.splitlines())
    left_out = order("ending", "--row", 5, "--source", "code", "--epochs", "2:3")
    assert words(left_out.splitlines()[-1])[:3] == ["2", "left", "out"]


def test_an_empty_row_is_said_to_have_no_tokens(order):
    assert "no tokens" in order("windows", "--row", [len(row) for row in ROWS["web"]].index(0))


@pytest.mark.parametrize("name", ["grouped", "budget mixture"])
def test_a_row_that_is_found_by_lengths_says_so(order, home, name):
    said = order(name, "--row", 5, "--source", "web", "--epochs", 2)
    expected = occurrences(*open_run(settings(home, **RUNS[name])), 5, "web", [0, 1])
    assert "found by  arithmetic and the lengths of other rows" in said
    for epoch in expected.epochs:
        for o in epoch.seen:
            assert [*map(str, (epoch.epoch, o.step, o.slot, o.sample)), f"{o.start}..{o.stop}"] in map(
                words, said.splitlines()
            )


def test_the_plan_of_a_token_budget_tells_all_that_another_does(order, home):
    said = json.loads(order("budget", "--json"))
    batches, dataset = open_run(settings(home, **RUNS["budget"]))
    (segment,) = said["segments"]
    assert said["token_budget"] == {"tokens": 48, "micro_batches": 4}
    assert (segment["first_draw"], segment["order"]["seed"]) == (0, 7)
    assert said["steps"] == said["steps_per_epoch"] == batches.epoch_range(0)[1]
    taken = [slot for step in range(said["steps"]) for slot in receipt(batches, dataset, step).slots]
    assert said["run_samples"] == said["sources"][0]["samples"] == len(taken) < 90
    assert said["sources"][0]["epochs"] == 1
    assert said.keys() - {"token_budget"} == json.loads(order("windows", "--json")).keys() - {"token_budget"}
    lines = list(map(words, order("budget").splitlines()))
    assert ["a", "step", "4", "micro-batches", "of", "48", "tokens"] in lines
    assert ["0", "budget", "rows", "drop", "block", "7", "4", "64", "1", "all"] in lines


def test_the_plan_of_a_token_budget_ends_with_the_run(order):
    said = json.loads(order("ending budget", "--steps", 5000, "--json"))
    assert said["steps"] == said["end"] < 100
    text = order("ending budget", "--steps", 5000)
    assert f"steps 0 .. {said['end'] - 1}" in text
    assert f"before step {said['end']}, by source code" in text
    assert "later, by source code" in order("ending budget", "--steps", 1)
    assert "too few samples left of its max_epochs, 2" in order("ending budget", "--step", said["end"], code=2)


def test_digests_are_told_of_steps_and_of_the_run(order, home):
    of_steps = list(step_digests(*open_run(settings(home)), 0, 6))
    said = json.loads(order("windows", "--steps", "2:6", "--digest", "--json"))
    assert said == {"first_step": 2, "stop_step": 6, "digest": run_digest(of_steps[2:]), "steps": of_steps[2:]}
    lines = list(map(words, order("windows", "--steps", "2:6", "--digest").splitlines()))
    assert ["3", of_steps[3]] in lines
    assert ["digest", run_digest(of_steps[2:])] in lines
    assert run_digest(of_steps) in order("windows", "--steps", 6, "--digest")
    assert json.loads(order("windows", "--steps", 6, "--digest", "--json"))["digest"] == run_digest(of_steps)
    assert of_steps[2] in order("windows", "--step", 2, "--digest")
    assert json.loads(order("windows", "--step", 2, "--digest", "--json"))["digest"] == of_steps[2]


@pytest.mark.parametrize("name", ["ending", "ending budget"])
def test_digests_up_to_the_end_of_the_run_are_told_and_the_first_step_that_is_missing(order, home, name):
    batches, dataset = open_run(settings(home, **RUNS[name]))
    end = batches.progress(1000).end
    there = list(step_digests(batches, dataset, 3, end))
    error = order(name, "--steps", "3:400", "--digest", "--json", code=2)
    assert re.search(rf"step {end}: source 'code' has ", error)
    said = json.loads(order.printed)
    assert said == {"first_step": 3, "stop_step": end, "digest": run_digest(there), "steps": there}


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("windows", ["--step", 1, "--row", 2], "--step and --row ask for different things"),
        ("windows", ["--step", 1, "--steps", 2], "--step and --steps ask for different things"),
        ("windows", ["--rank", 1], "--rank is about --step, which is not given"),
        ("windows", ["--row", 1, "--world-size", 2], "--world-size is about --step, which is not given"),
        ("mixture", ["--steps", 10**18], "step: expected less than .* samples in global batches of 8 can be counted"),
        ("windows", ["--epochs", 2], "--epochs is about --row, which is not given"),
        ("windows", ["--row", 1, "--digest"], "--digest is about steps, not about --row"),
        ("windows", ["--steps", "1:2"], "--steps 1:2: without --digest the plan is told of the first N steps"),
        ("windows", ["--steps", "2:2", "--digest"], "--steps: expected a number from 1 on, or A:B with A below B"),
        ("windows", ["--steps", "0"], "--steps: expected a number from 1 on"),
        ("windows", ["--row", 1, "--epochs", "x"], "--epochs: expected a number from 1 on, or A:B .* found 'x'"),
        ("windows", ["--step", 1, "--rank", 1], "rank: expected one of the ranks 0 .. 0 of world_size 1, found 1"),
        ("windows", ["--step", 1, "--world-size", 3], "global_batch_size: expected a multiple of world_size 3"),
        ("windows", ["--row", 90], "row: 90 is not within the 90 rows of 'web'"),
        ("mixture", ["--row", 1], "source: rows are counted in each source; name one of web, code"),
        ("mixture", ["--row", 1, "--source", "math"], "source: expected one of web, code, found 'math'"),
        ("ending", ["--step", 1000], "source 'code' has given all samples of its max_epochs, 2, by step"),
        ("ending", ["--steps", "990:1000", "--digest"], "source 'code' has given all samples of its max_epochs"),
    ],
)
def test_wrong_use_exits_with_2_and_names_the_option(order, name, args, message):
    assert re.search(message, order(name, *args, code=2))


def test_a_step_past_the_end_of_a_run_that_is_grouped_by_length_is_told_by_what_ends_it(order, home):
    options = {**RUNS["ending"], "sample": {"mode": "rows", "seq_len": None}}
    options["order"] = {**options["order"], "length_grouping": {"steps": 3}}
    config = settings(home, **options)
    end = open_run(config)[0].plan.end
    assert f"step {end - 1}" in order(config, "--step", end - 1)
    for step in (end, end + 4):
        assert f"step {step}: source 'code' has given all samples of its" in order(config, "--step", step, code=2)


def run_python(tmp_path, code):
    """Run `tokenyard order` in a process of its own, after some code; returns its error."""
    (tmp_path / "train.yaml").write_text("data: {path: x}\norder: {global_batch: 8}\n")
    code += f"; sys.argv = ['tokenyard', 'order', '-c', {str(tmp_path / 'train.yaml')!r}]"
    code += "; from tokenyard.cli import main; main()"
    root = Path(__file__).resolve().parents[2]
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=root)
    assert process.returncode == 2, process.stderr
    assert "Traceback" not in process.stderr
    return process.stderr


def test_a_run_that_was_changed_at_a_checkpoint_is_told_by_its_state(order, home, tmp_path):
    first, changed = settings(home, **RUNS["windows"]), settings(home, **RUNS["windows"])
    changed = changed.model_copy(update={"order": changed.order.model_copy(update={"global_batch_size": 6})})
    before, _ = open_run(first)
    batches, _ = open_run(changed)
    batches, _ = batches.resumed(before.state(3), new_segment=True)
    file = tmp_path / "state.json"
    file.write_text(json.dumps(batches.state(3)))
    told = json.loads(order(changed, "--state", file, "--step", 3, "--json"))
    assert [slot["sample"] for slot in told["slots"]] == batches.of_steps(3, 1)[0][0].sample_ids.tolist()
    assert told["slots"] != json.loads(order(changed, "--step", 3, "--json"))["slots"]
    file.write_text(json.dumps(before.state(3)))
    decided = json.loads(order(changed, "--state", file, "--new-segment", "--step", 3, "--json"))
    assert decided["slots"] == told["slots"]
    assert "load with new_segment=True" in " ".join(order(changed, "--state", file, "--step", 3, code=2).split())
    assert "--new-segment is about --state" in order(changed, "--new-segment", code=2)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (None, 1, "state.json: can't read the state: no such file"),
        ("{", 2, "state.json: expected the JSON of a loader's state_dict"),
        ("[]", 2, "state.json: expected the JSON of a loader's state_dict"),
        ("{}", 2, "expected what state_dict"),
    ],
)
def test_what_is_no_state_is_refused(order, tmp_path, text, code, message):
    if text is not None:
        (tmp_path / "state.json").write_text(text)
    assert message in " ".join(order("windows", "--state", tmp_path / "state.json", code=code).split())


def test_a_missing_torch_is_said(tmp_path):
    said = run_python(tmp_path, "import sys; sys.modules['torch'] = None")
    assert "tokenyard order needs torch: pip install 'tokenyard[torch]'" in said


def test_a_wrong_key_is_named(tmp_path):
    assert "order.global_batch" in run_python(tmp_path, "import sys")
