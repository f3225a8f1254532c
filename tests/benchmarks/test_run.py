"""One command runs all benchmarks, and its table says what holds."""

import json
from pathlib import Path

import pytest

from benchmarks import results, run

BENCHMARKS = ["cold", "convert", "decoded", "gather", "loader", "memory", "monitor", "opening", "order"]
BENCHMARKS += ["size", "tokenizing", "training_step", "windows"]


def test_every_module_with_a_main_is_a_benchmark():
    assert set(BENCHMARKS) <= set(run.benchmarks())
    assert not {"run", "peers", "corpora", "timing", "results"} & set(run.benchmarks())


def test_a_script_whose_main_takes_no_arguments_is_none(tmp_path: Path):
    (tmp_path / "script.py").write_text("def main(): ...")
    (tmp_path / "other.py").write_text('"""Title.\n\nMore.\n"""\ndef main(arguments=None): ...')
    assert run.benchmarks(tmp_path) == {"other": "Title."}


def test_a_benchmark_needs_a_title(tmp_path: Path):
    (tmp_path / "other.py").write_text("def main(arguments): ...")
    with pytest.raises(ValueError, match=r"other\.py: a benchmark needs a docstring"):
        run.benchmarks(tmp_path)


def test_each_runs_in_a_process_of_its_own_and_the_table_has_all(capfd):
    found = run.main(["--quick", "--only", "gather", "training_step"])
    said = capfd.readouterr().out
    assert all(run.benchmarks()[name] in said for name in ("gather", "training_step"))
    assert said.rstrip().endswith(results.table(found).rstrip())
    assert {result.work for result in found} == {"gather", "training step", "GIL held"}


def test_as_json_nothing_else_is_printed(capfd):
    run.main(["--quick", "--only", "gather", "--json"])
    lines = json.loads(capfd.readouterr().out)
    assert {line["work"] for line in lines} == {"gather"}
    assert all(line["met"] in (True, False) for line in lines)


def test_bars_are_met_from_below_or_above():
    told = {"work": "work", "case": "case", "measured": 2.0, "unit": "MB"}
    assert results.Result(**told).met is None
    assert results.Result(**told, bar=2.0).met
    assert not results.Result(**told, bar=3.0).met
    assert results.Result(**told, bar=3.0, at_most=True).met
    assert not results.Result(**told, bar=1.0, at_most=True).met
    assert "2 MB      <= 1  NOT MET" in results.table([results.Result(**told, bar=1.0, at_most=True)])
