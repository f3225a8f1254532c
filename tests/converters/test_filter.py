"""Filtering by length and by fields, against the slow obvious way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.converters.test_convert import FORMATS, tree, write
from tests.converters.test_shuffle import named_rows_of, rows_of
from tests.corpora import write_corpus
from tokenyard.converters.filter_rows import filter_rows, plan_filter
from tokenyard.converters.run import run_part
from tokenyard.corpus import open_corpus
from tokenyard.errors import ConfigError

SMALL = {"shard_bytes": 20_000}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("filtered") / "source", "parquet", num_rows=2600, shard_bytes=30_000)


CASES: list[tuple[dict[str, Any], Callable[[Row], bool]]] = [
    ({"min_tokens": 3}, lambda r: len(r["tokens"]) >= 3),
    ({"max_tokens": 0}, lambda r: len(r["tokens"]) == 0),
    ({"min_tokens": 2, "max_tokens": 4}, lambda r: 2 <= len(r["tokens"]) <= 4),
    ({"where": ["n < -100", "score >= 5e1"]}, lambda r: r["n"] < -100 and (r["score"] or 0) >= 50),
    ({"where": ["score != 1"]}, lambda r: r["score"] is not None and r["score"] != 1),
    ({"where": ["n in [-1, -2, 7]"]}, lambda r: r["n"] in (-1, -2, 7)),
    ({"where": ["n not in [-1, -2]"]}, lambda r: r["n"] not in (-1, -2)),
    ({"where": ["n <= 99999999999999999999"]}, lambda r: True),
    ({"where": ["score is null"]}, lambda r: r["score"] is None),
    ({"where": ["blob is  not null"]}, lambda r: r["blob"] is not None),
    ({"where": ["loss_mask is null"]}, lambda r: False),
    ({"where": ["source in ['a #1', '#', a#]"]}, lambda r: r["source"] in ("a #1", "#", "a#")),
    ({"where": ["score >= -inf"]}, lambda r: r["score"] is not None and r["score"] == r["score"]),
    ({"where": ["source == ''"]}, lambda r: r["source"] == ""),
    ({"where": ["source != '010'"]}, lambda r: r["source"] != "010"),
    ({"where": ["n != 0"]}, lambda r: r["n"] != 0),
    ({"where": ["source > 'a'"]}, lambda r: r["source"] > "a"),
    ({"where": ["source in ['', nothing]"], "min_tokens": 8}, lambda r: r["source"] == "" and len(r["tokens"]) >= 8),
]


@pytest.mark.parametrize(("settings", "is_wanted"), CASES, ids=lambda case: str(case) if isinstance(case, dict) else "")
def test_the_rows_for_which_all_conditions_hold_are_kept_in_order(
    source: Path, tmp_path: Path, settings: dict[str, Any], is_wanted: Callable[[Row], bool]
) -> None:
    report = filter_rows(source, tmp_path / "out", **settings, **SMALL)
    before, after = open_corpus(source), open_corpus(tmp_path / "out")
    wanted = [row for row in named_rows_of(before) if is_wanted(row)]
    assert named_rows_of(after) == wanted
    assert (report.num_rows, report.num_dropped_rows) == (len(wanted), len(before) - len(wanted))
    assert report.num_tokens + report.num_dropped_tokens == before.num_tokens
    assert (after.format, after.schema, after.digest) == (before.format, before.schema, report.digest)


def test_rows_that_failed_are_counted_by_condition(source: Path, tmp_path: Path) -> None:
    report = filter_rows(source, tmp_path / "out", min_tokens=1, where=["n <= -2000", "source == ''"])
    rows = named_rows_of(open_corpus(source))
    assert report.failed == {
        "min_tokens 1": sum(len(row["tokens"]) < 1 for row in rows),
        "n <= -2000": 2000,
        "source == ''": sum(row["source"] != "" for row in rows),
    }


@pytest.mark.parametrize("to", FORMATS)
def test_every_format_can_be_written_with_the_same_rows(source: Path, tmp_path: Path, to: str) -> None:
    filter_rows(source, tmp_path / "out", format=to, min_tokens=5, **SMALL)
    filter_rows(source, tmp_path / "same", min_tokens=5)
    assert open_corpus(tmp_path / "out").manifest.digests == open_corpus(tmp_path / "same").manifest.digests
    assert open_corpus(tmp_path / "out").format == to


def test_the_bytes_do_not_depend_on_workers_or_parts(source: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"where": ["n < -7"], "format": "mds", **SMALL}
    filter_rows(source, tmp_path / "one", **settings)
    filter_rows(source, tmp_path / "two", num_workers=2, **settings)
    job = plan_filter(source, **settings)
    for k in (2, 1):
        run_part(job, tmp_path / "parts", (k, 2))
    filter_rows(source, tmp_path / "parts", finish=True, **settings)
    assert tree(tmp_path / "one") == tree(tmp_path / "two") == tree(tmp_path / "parts")


def test_numbers_are_compared_in_the_type_of_their_field(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "h": ("float16", [0.1, 0.2]),
        "f": ("float32", [0.1, float("nan")]),
        "u": ("uint8", [0, 255]),
        "b": ("bool", [True, False]),
    }
    corpus = write_corpus(tmp_path / "c", [[1], [2]], **fields)
    for number, (condition, kept) in enumerate(
        [
            ("h <= 0.1", [1]),
            ("h < 1e30", [1, 2]),
            ("f == 0.1", [1]),
            ("f > 0", [1]),
            ("f != 0.1", [2]),
            ("u > -1", [1, 2]),
            ("u == 255.0", [2]),
            ("u == 256", []),
            ("b == true", [1]),
            ("b in [false]", [2]),
        ]
    ):
        filter_rows(corpus, tmp_path / str(number), where=[condition])
        assert [row[0][0] for row in rows_of(open_corpus(tmp_path / str(number)))] == kept, condition


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"nothing to filter by: give min_tokens, max_tokens or where \(--min-tokens"),
        ({"min_tokens": 3, "max_tokens": 2}, "min_tokens 3, max_tokens 2: expected whole numbers from 0 on"),
        ({"min_tokens": -1}, "min_tokens -1, max_tokens None: expected whole numbers"),
        ({"where": "n == 1"}, "where: expected a list of conditions; found 'n == 1'"),
        ({"where": ["n"]}, "where 'n': expected a field, an operator and a value, as in lang == en"),
        ({"where": ["x == 1"]}, "where 'x == 1': there is no field 'x'; there are blob, loss_mask, n, score, source"),
        ({"where": ["source == a: b"]}, "'a: b' is no value|so expected text"),
        ({"where": ["source == [a"]}, r"'\[a' is no value; put text in quotes"),
        ({"where": ["source == 1"]}, r"field 'source' is string, so expected text \(in quotes.*found 1"),
        ({"where": ["n == a"]}, "field 'n' is int64, so expected a number; found 'a'"),
        ({"where": ["n == true"]}, "so expected a number; found True"),
        ({"where": ["n in 3"]}, r"'in' takes a list, as in n in \[3\]"),
        ({"where": ["source == issue #5"]}, "'issue #5' is no value; put text in quotes"),
        ({"where": ["source == '' # empty"]}, '# empty" is no value; put text in quotes'),
        ({"where": ["source == &x web"]}, "'&x web' is no value; put text in quotes"),
        ({"where": ["n in " + 5000 * "["]}, "is no value; put text in quotes"),
        ({"where": ["score == nan"]}, "a NaN is neither equal to anything, nor less or more; 'score >= -inf' holds"),
        ({"where": ["score != .nan"]}, "a NaN is neither equal to anything"),
        ({"where": ["score < 1" + 400 * "0"]}, "no float is as large as that; use score < inf"),
        ({"where": ["n == 010"]}, "010 is another number to YAML 1.1 than to 1.2; write it in plain digits"),
        ({"where": ["n in [1, -1:30]"]}, "-1:30 is another number to YAML 1.1"),
        ({"where": ["source == 010"]}, "in plain digits, or in quotes as text"),
        ({"where": ["n is 3"]}, "'is' goes with null alone; use == or != for values"),
        ({"where": ["blob == a"]}, r"field 'blob' is bytes\?, which can be compared with null alone"),
        ({"where": ["loss_mask == 1"]}, r"field 'loss_mask' is uint8\[\], which can be compared with null alone"),
    ],
)
def test_what_can_not_be_filtered_by_is_told(
    source: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        filter_rows(source, tmp_path / "out", **settings)


def test_bools_have_no_order(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c", [[1]], b=("bool", [True]))
    with pytest.raises(ConfigError, match="field 'b' is bool; use == or !="):
        filter_rows(corpus, tmp_path / "out", where=["b > false"])
    with pytest.raises(ConfigError, match="field 'b' is bool, so expected true or false; found 1"):
        filter_rows(corpus, tmp_path / "out", where=["b == 1"])
