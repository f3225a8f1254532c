"""`tokenyard doctor --preflight`, as a user types it: its page, its JSON, its exit codes and its errors."""

import json

import pytest
import yaml

from tests.cli.commands import end
from tests.preflight.texts import documents, marked
from tests.runs import RUNS, loaders, settings, write_corpora


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    """Run `tokenyard doctor --preflight` with settings and arguments; returns its output, or the error of code 2."""

    def run(config, *args, code=0):
        path = tmp_path / "train.yaml"
        path.write_text(yaml.safe_dump(config.model_dump(exclude_defaults=True)))
        out, err = end(monkeypatch, capsys, "doctor", "--preflight", path, *args, code=code)
        return err if code == 2 else out

    return run


def test_a_run_that_is_ready_has_a_page_of_lines_that_pass(doctor, home, tmp_path):
    page = doctor(settings(home), "--ranks", 2, "--vocab-size", 65536)
    lines = page.splitlines()
    assert lines[0] == f"{tmp_path / 'train.yaml'}: 2 ranks, 21 steps"
    checks = ["corpus", "shards", "vocabulary", "documents", "ranks", "partition", "steps", "epochs", "cache"]
    checks += ["first batch", "memory", "open files", "memory maps"]
    told = [line for line in lines[1:] if line.startswith("  pass  ")]
    assert [line[8:19].strip() for line in told] == checks
    assert lines[-2] == "not looked at: the tokenizer: none is named (--tokenizer)"
    assert lines[-1].startswith("13 pass; ")


def test_what_warns_ends_with_0_and_what_fails_with_1(doctor, home):
    page = doctor(settings(home), "--ranks", 2, "--steps", 210)
    assert "  warn  epochs" in page
    assert "-> add data, or plan fewer steps" in page
    page = doctor(settings(home), "--ranks", 3, code=1)
    assert "  fail  ranks" in page
    assert "not looked at: partition, steps, epochs, state, cache and memory: the run can't be planned" in page
    assert "1 fail" in page.splitlines()[-1]


def test_sources_of_a_mixture_are_named(doctor, home):
    page = doctor(settings(home, **RUNS["mixture"]), "--ranks", 2, "--steps", 500)
    assert "  warn  epochs of code" in page
    assert "  pass  shards of web" in page


def test_all_of_it_as_json(doctor, home, tmp_path):
    config = settings(home)
    (tmp_path / "state.json").write_text(json.dumps(loaders(config)[0].state_dict(step=4)))
    said = json.loads(doctor(config, "--ranks", 2, "--state", tmp_path / "state.json", "--json"))
    assert (said["status"], said["ok"], said["ranks"], said["steps"]) == ("pass", True, 2, 21)
    (line,) = [line for line in said["lines"] if line["check"] == "resume"]
    assert line == {
        "check": "resume",
        "status": "pass",
        "found": "goes on at step 4, in epoch 0",
        "way_out": "",
        "source": None,
    }
    failed = json.loads(doctor(config, "--ranks", 2, "--vocab-size", 10, "--json", code=1))
    assert (failed["status"], failed["ok"]) == ("fail", False)


def test_text_of_anybodys_can_not_act_on_a_terminal(doctor, tmp_path):
    folder = tmp_path / "a\x1b[31mb"
    marked(folder, documents(9))
    config = settings(tmp_path)
    data = config.data.model_copy(update={"path": str(folder)})
    page = doctor(config.model_copy(update={"data": data}), "--ranks", 2)
    assert "\x1b" not in page
    assert "a␛[31mb" in page


def test_wrong_use_ends_with_2(doctor, home, tmp_path):
    assert "model and vocab_size both say" in doctor(settings(home), "--model", tmp_path, "--vocab-size", 9, code=2)
    (tmp_path / "state.json").write_text("[]")
    said = doctor(settings(home), "--ranks", 2, "--state", tmp_path / "state.json", code=2)
    assert "expected the JSON of a loader's state_dict(), found []" in said
    assert "no such file" in doctor(settings(home), "--tokenizer", tmp_path / "none.json", code=2)
    assert "web: no such file or folder" in doctor(settings(tmp_path), "--ranks", 2, code=2)
