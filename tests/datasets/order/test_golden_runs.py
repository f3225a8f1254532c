"""States that were written once load for ever, and give the run that they gave."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from tests.datasets.order.plans import steps_of
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.state import State, rebase, to_json

RUNS = json.loads((Path(__file__).parent / "golden_runs.json").read_text())["runs"]


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case["name"])
def test_a_golden_state_loads_and_its_run_is_what_it_was(case: dict[str, Any]) -> None:
    found = State.from_json(copy.deepcopy(case["state"]))
    plan = Plan(found.segments)
    run = steps_of(plan, 0, case["steps"])
    slots = [(0 if k is None else k, epoch, sample) for _, step in run for k, epoch, sample, _ in step]
    assert [list(slot) for slot in slots[:10]] == case["begins"]
    assert blake3(b"".join(x.to_bytes(8, "little") for slot in slots for x in slot)).hexdigest() == case["blake3"]
    assert [run[step][0] for step in (0, found.step, -1)] == case["epochs"]


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case["name"])
def test_a_golden_state_is_written_as_it_was(case: dict[str, Any]) -> None:
    found = State.from_json(case["state"])
    plan = Plan(found.segments)
    assert to_json(plan, found.step) == case["state"]
    assert rebase(plan, found).segments == plan.segments


def test_golden_runs_are_of_all_kinds() -> None:
    segments = [segment for case in RUNS for segment in case["state"]["segments"]]
    assert {segment["order"]["shuffle"] for segment in segments} == {"none", "global", "block"}
    assert {segment["is_mixture"] for segment in segments} == {True, False}
    assert {segment["last_batch"] for segment in segments} == {"drop", "pad"}
    assert {source["at_end"] for segment in segments for source in segment["sources"]} == {"repeat", "stop", "raise"}
    assert {len(case["state"]["segments"]) for case in RUNS} == {1, 3}
