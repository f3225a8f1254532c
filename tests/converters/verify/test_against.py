"""Two corpora compared: equal by digest, or the first row that differs and its shard in both."""

import numpy as np
import pytest

import tokenyard
from tests.converters.verify.made import cut, write
from tests.corpora import write_corpus
from tokenyard.converters.convert import convert
from tokenyard.converters.verify import verify
from tokenyard.converters.verify.against import difference


def test_the_same_rows_in_another_format_are_equal(tmp_path):
    path = write(tmp_path / "npy")
    convert(path, tmp_path / "mds", to="mds")
    for quick in (False, True):
        report = verify(tmp_path / "mds", against=path, quick=quick)
        assert report.ok
        assert report.against == str(path)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("changed", [0, 1023, 1024, 2000, 2999])
def test_the_first_row_that_differs_is_told_with_its_shard_in_both(tmp_path, changed, workers):
    a, b = write(tmp_path / "a"), write(tmp_path / "b", "mds", changed=changed, shard_bytes=7_000)
    report = verify(a, against=b, num_workers=workers)
    assert not report.ok
    assert not report.damaged
    assert report.bad_shards == ()
    by_digest, by_row = report.problems
    assert str(by_digest).startswith(f"differs from {b}: tokens: ty1:")
    here, there = (
        corpus.folder.at(
            corpus.manifest.shards[int(np.searchsorted(corpus.shard_row_starts, changed, "right")) - 1].name
        )
        for corpus in map(tokenyard.open_corpus, (a, b))
    )
    token = int(tokenyard.open_corpus(a)[changed][0])
    assert str(by_row) == (
        f"differs from {b}: row {changed} is the first that differs: token 0 of it is {token} here, {token + 1} there. "
        f"Here it is in {here}, there in {there}; 1 of 3 blocks of 1024 rows differ"
    )
    assert by_row.rows == (changed, changed)


def test_rows_that_are_more_are_told_with_where_they_begin(tmp_path):
    a, b = write(tmp_path / "a", num_rows=2500), write(tmp_path / "b")
    for path, other in ((a, b), (b, a)):
        last = str(verify(path, against=other).problems[-1])
        assert "what is more begins with row 2500, in " + str(b) in last
        assert f"{2500 if path == a else 3000} rows here" in last


def test_fields_are_compared_too(tmp_path):
    rows = [[1, 2], [3], [4, 5, 6]]
    a = write_corpus(tmp_path / "a", rows, source=("string", ["x", "y", "z"]), score=("float32", [0.5, np.nan, 1.0]))
    b = write_corpus(tmp_path / "b", rows, source=("string", ["x", "y", "w"]), score=("float32", [0.5, np.nan, 1.0]))
    c = write_corpus(tmp_path / "c", rows, source=("string", ["x", "y", "z"]))
    d = write_corpus(tmp_path / "d", rows, source=("string", ["x", "y", "z"]), score=("int8", [1, 2, 3]))
    assert any("field 'score' is float32 here, int8 there" in str(p) for p in verify(a.path, against=d.path).problems)
    problems = [str(p) for p in verify(a.path, against=b.path).problems]
    assert any("row 2 is the first that differs: field 'source' is 'z' here, 'w' there" in p for p in problems)
    assert any("field 'score' is absent there" in str(p) for p in verify(a.path, against=c.path).problems)


def test_a_corpus_that_others_made_is_compared_by_reading_it(tmp_path):
    rows = [np.arange(n, dtype=np.int32) for n in (3, 1, 2)]
    (tmp_path / "others").mkdir()
    for i, row in enumerate(rows):
        np.save(tmp_path / "others" / f"tokens_{i}.npy", row)
    convert(tmp_path / "others", tmp_path / "ours", to="mds")
    assert verify(tmp_path / "ours", against=tmp_path / "others").ok
    assert verify(tmp_path / "others", against=tmp_path / "ours").ok
    np.save(tmp_path / "others" / "tokens_1.npy", np.array([9], np.int32))
    problems = [str(p) for p in verify(tmp_path / "ours", against=tmp_path / "others").problems]
    assert any("row 1 is the first that differs: token 0 of it is 0 here, 9 there" in p for p in problems)


def test_quick_compares_the_digests_of_the_manifests_alone(tmp_path):
    a, b = write(tmp_path / "a"), write(tmp_path / "b", changed=5)
    (problem,) = verify(a, against=b, quick=True).problems
    assert str(problem).startswith(f"differs from {b}: tokens: ty1:")
    np.save(tmp_path / "tokens.npy", np.arange(5))
    report = verify(a, against=tmp_path / "tokens.npy", quick=True)
    assert report.ok
    assert f"{tmp_path / 'tokens.npy'} has no digest, so that quick can't compare it" in report.notes


def test_what_is_damaged_in_the_other_one_is_told_as_such(tmp_path):
    a, b = write(tmp_path / "a"), write(tmp_path / "b", changed=2800)
    cut(b)
    report = verify(a, against=b)
    assert not report.damaged
    assert str(report.problems[0]).startswith(f"{b}: {b}/shard-00001.npy: ")
    assert "row 2800 is the first that differs" in str(report.problems[1])


def test_differences_of_values_are_told_in_words():
    assert difference("tokens", np.array([1, 2]), np.array([1, 2])) is None
    assert difference("x", np.array([np.nan, 1.0]), np.array([np.nan, 1.0])) is None
    assert difference("x", float("nan"), float("nan")) is None
    assert difference("x", None, None) is None
    assert difference("x", np.array([1, 2]), np.array([1, 3])) == "item of 'x' 1 of it is 2 here, 3 there"
    assert difference("tokens", np.array([1]), np.array([1, 3])) == "it has 1 tokens here, 2 there"
    assert difference("x", None, "a") == "field 'x' is None here, 'a' there"
