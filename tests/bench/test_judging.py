"""Grades and choices: what follows from the figures."""

from dataclasses import replace

import pytest

from tests.bench.reports import TYPICAL, figures
from tokenyard.bench.choices import choose
from tokenyard.bench.grades import RULE, grade_all, share_of_best
from tokenyard.bench.metrics import Figure


def judged(told, *, is_large=False, cold=True):
    found = {name: figures(*values, cold=cold) for name, values in told.items()}
    formats = {name: name.partition(":")[0] for name in told}
    choices = choose(found, titles={name: name.upper() for name in told}, formats=formats, is_large=is_large)
    return {choice.purpose.partition(",")[0].split()[0]: choice for choice in choices}, grade_all(found)


def test_typical_figures_choose_what_one_would_expect():
    choices, grades = judged(TYPICAL)
    assert {purpose: choice.variant for purpose, choice in choices.items()} == {
        "Train": "npy",
        "Store": "parquet",
        "Query": "parquet:lz4",
        "Look": "npy",
    }
    assert choices["Store"].title == "PARQUET"
    assert (grades["npy"].reading, grades["npy"].compression, grades["npy"].random_access) == ("best", "fair", "best")
    assert (grades["parquet"].reading, grades["parquet"].compression) == ("fair", "best")
    assert (grades["csv"].reading, grades["csv"].random_access) == ("poor", "poor")


def test_of_formats_that_are_as_fast_the_smallest_is_taken():
    choices, _ = judged({"mds": (100.0, 5e6, 1.0), "npy": (85.0, 4e6, 1.0), "csv": (60.0, 1e6, 1.0)})
    assert choices["Train"].variant == "npy"
    assert "85.0 Mtok/s into training batches, 85% of the fastest" in choices["Train"].because


def test_one_round_alone_does_not_decide():
    found = {"npy": figures(100.0, 4e6, 1.0), "mds": figures(100.0, 5e6, 1.0)}
    found["npy"]["loader"] = Figure(values=(20.0, 99.0, 99.0))
    titles = {name: name for name in found}
    assert choose(found, titles, titles, is_large=False)[0].variant == "npy"
    found["npy"]["loader"] = Figure(values=(20.0, 30.0, 99.0))
    assert choose(found, titles, titles, is_large=False)[0].variant == "mds"


def test_a_corpus_too_large_for_memory_is_judged_by_the_disk():
    told = {"npy": (600.0, 4e6, 1.0), "mds:zstd": (90.0, 3e6, 1.0)}
    found = {name: figures(*values) for name, values in told.items()}
    found["mds:zstd"]["loader_cold"] = Figure(values=(1000.0,))
    formats = {"npy": "npy", "mds:zstd": "mds"}
    by_size = {large: choose(found, formats, formats, is_large=large)[0] for large in (False, True)}
    assert [by_size[large].variant for large in (False, True)] == ["npy", "mds:zstd"]
    assert "page cache cold, since the corpus would not stay in half of this machine's memory" in by_size[True].rule


def test_without_cold_figures_the_warm_ones_decide():
    choices, _ = judged(TYPICAL, is_large=True, cold=False)
    assert choices["Train"].variant == "npy"
    assert "page cache warm" in choices["Train"].rule


def test_without_a_table_format_none_is_chosen_to_query():
    choices, _ = judged({"npy": TYPICAL["npy"], "mds": TYPICAL["mds"]})
    assert "Query" not in choices


def test_the_rules_are_told_with_their_numbers():
    assert "best from 80% of it on, good from 40%, fair from 10%" in RULE
    choices, _ = judged(TYPICAL)
    assert choices["Store"].rule == "the fastest shuffled read of those within 5% of the smallest size"


@pytest.mark.parametrize(
    ("speed", "grade"), [(80.0, "best"), (79.9, "good"), (40.0, "good"), (10.0, "fair"), (9.9, "poor")]
)
def test_grades_begin_where_the_rule_says(speed, grade):
    _, grades = judged({"npy": (100.0, 1e6, 1.0), "mds": (speed, 1e6, 1.0)})
    assert grades["mds"].reading == grade


def test_what_was_not_measured_has_no_grade():
    found = {"npy": figures(*TYPICAL["npy"])}
    del found["npy"]["row_p50"]
    assert grade_all(found)["npy"].random_access is None
    assert share_of_best("row_p50", "npy", found) is None


def test_without_a_loader_gathers_stand_for_shuffled_reading():
    found = {name: figures(*TYPICAL[name]) for name in ("npy", "csv")}
    for values in found.values():
        del values["loader"]
    titles = {name: name for name in found}
    (train, *_) = choose(found, titles, titles, is_large=False)
    assert "Mtok/s into gathered rows (without torch no training batches are measured), 100% of" in train.because
    found["npy"]["gather"] = replace(found["npy"]["gather"], values=(1.0,))
    assert grade_all(found)["npy"].reading == "fair"
