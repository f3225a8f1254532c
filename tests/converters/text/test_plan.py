import os
import pickle

import pytest

from tokenyard.converters.text import (
    TextOptions,
    group_splits,
    plan_texts,
    read_split,
)
from tokenyard.errors import ConfigError, StorageError

LINE = b'{"text": "%s"}\n'


@pytest.fixture
def tree(tmp_path, file):
    for name in ("b.jsonl", "a/z.jsonl", "a/b/c.jsonl", "a.jsonl", "B.jsonl", "a/10.jsonl", "a/9.jsonl"):
        file(name, LINE % name.encode())
    for hidden in (".hidden.jsonl", ".git/x.jsonl", "a/.x.jsonl"):
        file(hidden, LINE % b"hidden")
    return tmp_path


IN_ORDER = ["B.jsonl", "a/10.jsonl", "a/9.jsonl", "a/b/c.jsonl", "a/z.jsonl", "a.jsonl", "b.jsonl"]


def test_a_folder_is_read_to_its_depth_sorted_by_the_parts_of_paths_without_hidden_files(texts, tree):
    assert texts(tree) == IN_ORDER


@pytest.mark.parametrize("pattern", ["**", "**/*.jsonl", "**/*"])
def test_a_recursive_glob_gives_what_the_folder_gives_each_file_once(texts, tree, pattern):
    assert texts(os.path.join(tree, pattern)) == IN_ORDER


def test_a_glob_is_sorted_and_a_list_keeps_its_order(texts, tree):
    assert texts(str(tree / "*.jsonl")) == ["B.jsonl", "a.jsonl", "b.jsonl"]
    assert texts([tree / "b.jsonl", tree / "a" / "b", tree / "B.jsonl"]) == ["b.jsonl", "a/b/c.jsonl", "B.jsonl"]


def test_a_hidden_file_is_read_when_it_is_listed(texts, tree):
    assert texts(tree / ".hidden.jsonl") == ["hidden"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(texts, file):
    file("ab.jsonl", LINE % b"other")
    assert texts(file("a[b].jsonl", LINE % b"this")) == ["this"]


def test_a_file_named_twice_is_refused(tree):
    with pytest.raises(
        ConfigError, match=r"b\.jsonl: named by more than one input; its documents would be taken twice"
    ):
        plan_texts([tree / "b.jsonl", tree], TextOptions())


def test_a_listed_file_of_unknown_kind_is_an_error_and_one_in_a_folder_is_noted(texts, tree, file):
    path = file("a/readme.rst", b"hello")
    with pytest.raises(ConfigError, match=r"readme\.rst: nothing tells its kind; known are \.txt, .*or set `kind`"):
        plan_texts([path], TextOptions())
    plan = plan_texts(tree, TextOptions())
    assert len(plan.splits) == len(IN_ORDER)
    (note,) = plan.notes
    assert note.kind == "unknown_kind"
    assert note.message.startswith(f"left out {path}: nothing tells its kind")
    assert texts(path, kind="txt") == ["hello"]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nothing.jsonl", StorageError, "nothing.jsonl: no such file or folder"),
        ("*.parquet", StorageError, r"\*\.parquet: no files; expected a file, a folder with files in it, or a glob"),
        ("empty", StorageError, "empty: no files"),
        ("ftp://bucket/a.jsonl", ConfigError, "no scheme is called ftp"),
    ],
)
def test_inputs_that_name_nothing_are_errors(tmp_path, name, error, message):
    (tmp_path / "empty").mkdir()
    with pytest.raises(error, match=message):
        plan_texts(name if "://" in name else tmp_path / name, TextOptions())


def test_a_folder_without_any_known_kind_is_an_error(tmp_path, file):
    file("a.rst", b"x")
    with pytest.raises(ConfigError, match=r"no file of a known kind among 1: left out .*a\.rst"):
        plan_texts(tmp_path, TextOptions())


def test_linked_files_are_read_and_linked_folders_are_not(texts, tmp_path, file):
    target = file("real/a.jsonl", LINE % b"a")
    data = tmp_path / "data"
    data.mkdir()
    (data / "link.jsonl").symlink_to(target)
    (data / "loop").symlink_to(data)
    assert texts(data) == ["a"]


def test_splits_are_small_picklable_and_the_same_each_time(tree):
    options = TextOptions(split_bytes=10)
    splits = plan_texts(tree, options).splits
    assert splits == plan_texts(tree, options).splits
    assert pickle.loads(pickle.dumps(splits)) == splits
    assert hash(splits)


def test_neighbouring_splits_are_grouped_by_bytes_in_order(tree):
    splits = plan_texts(tree, TextOptions()).splits
    groups = group_splits(splits, 60)
    assert [split for group in groups for split in group] == list(splits)
    assert len(groups) < len(splits)
    assert all(len(group) == 1 or sum(split.num_bytes for split in group) <= 60 for group in groups)
    assert group_splits((), 60) == ()


def test_a_kind_can_be_forced_on_files_of_any_name(texts, file):
    path = file("data.log", b"a\nb")
    assert texts(path, kind="txt", txt_documents="line") == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "xml"}, "kind: expected one of auto, txt, jsonl, csv, parquet, mds, tar; found 'xml'"),
        ({"txt_documents": "page"}, "txt_documents: expected 'file' or 'line'; found 'page'"),
        ({"csv_delimiter": "::"}, "csv_delimiter: expected one character; found '::'"),
        ({"max_document_bytes": 0}, "max_document_bytes: expected at least 1; found 0"),
        ({"split_bytes": -1}, "split_bytes: expected at least 1; found -1"),
        (
            {"fields": {"n": "int"}},
            "field 'n': unknown field type 'int': expected one of int8, int16, int32, int64, uint8, .* string or bytes",
        ),
        ({"fields": {"n": "uint8[]"}}, r"field 'n': 'uint8\[\]' is a list; only numbers, string and bytes are copied"),
        ({"fields": {"text": "string"}}, "'text' is the text itself; it can't be copied as a field too"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        TextOptions(**options)


def test_mds_can_not_be_forced_on_another_file(file):
    with pytest.raises(ConfigError, match=r"a\.jsonl: expected an MDS folder or its index\.json"):
        plan_texts(file("a.jsonl", b"{}"), TextOptions(kind="mds"))


def test_an_unreadable_file_is_named(file):
    path = file("a.jsonl", b'{"text": "a"}\n')
    (split,) = plan_texts(path, TextOptions()).splits
    path.unlink()
    with pytest.raises(StorageError, match=r"a\.jsonl: can't be read: No such file"):
        list(read_split(split, TextOptions()))
