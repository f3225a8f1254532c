"""The benchmark of the order, small: what it measures is what the order has there."""

import json

import pytest

from benchmarks import order
from tokenyard.datasets.order.plan import Plan

SMALL = ["--past", "0", "1000000", "999999999936", "--batch-sizes", "64", "--taken", "20000", "--repeats", "1"]


@pytest.mark.parametrize("kind", order.KINDS)
def test_going_on_takes_the_same_memory_however_many_samples_are_past(kind, capsys):
    order.main([*SMALL, "--kinds", kind, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [(row["samples"], row["past"]) for row in found["starts"]] == [
        (samples, past) for samples in (10, 10**6, 10**12) for past in (0, 10**6, 10**12 - 64)
    ]
    for start, *later in (found["starts"][at : at + 3] for at in (0, 3, 6)):
        assert all(row["KiB"] < 1.1 * start["KiB"] + 256 for row in later)
    (rates,) = found["rates"]
    assert all(rates[way] > 0 for way in ("draws", "requests", "requests of 16", "us per 16"))


def test_the_report_names_each_place_and_way(capsys):
    order.main([*SMALL, "--kinds", "block"])
    printed = capsys.readouterr().out
    assert "block, 10 samples an epoch, 1,000,000 past: " in printed
    assert "block, batches of 64: M samples/s: draws" in printed


def test_a_sample_in_another_place_than_the_orders_stops_it(monkeypatch):
    find = Plan.find
    monkeypatch.setattr(Plan, "find", lambda *a: [(step + 1, slot) for step, slot in find(*a)])
    with pytest.raises(SystemExit, match="where it doesn't belong"):
        order.main([*SMALL, "--kinds", "global"])
