import json

import pytest

from tokenyard.converters.text import BadRecord, Document, TextOptions, place_in_file, plan_texts, read_split
from tokenyard.errors import DataError


def kinds(records):
    return [record.kind if isinstance(record, BadRecord) else record.text for record in records]


def test_bad_lines_are_told_apart_and_the_good_ones_around_them_are_all_there(read, file):
    path = file(
        "a.jsonl",
        b"\xef\xbb\xbf"
        b'{"text": ""}\n'
        b'{"text": "broken\n'
        b'{"other": 1}\r\n'
        b'{"text": null}\n'
        b'{"text": 5}\n'
        b'["text"]\n'
        b'{"text": "bad \xff"}\n'
        b'{"text": "half \\ud83d"}\n'
        b'{"text": "a", "text": "b"}\n'
        b"\n"
        b'{"text": "last"}',
    )
    assert kinds(read(path)) == [
        "",
        "broken_json",
        "missing_text",
        "null_text",
        "text_not_string",
        "not_an_object",
        "invalid_utf8",
        "invalid_unicode",
        "duplicate_key",
        "last",
    ]


def test_a_bad_record_says_file_line_and_what_was_found(read, file):
    path = file("a.jsonl", b'{"text": "x"}\n{"txt": "x", "id": 1}\n')
    (_, bad) = read(path)
    assert str(bad) == f"{path}, line 2: no 'text'; there are 'txt', 'id'"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_may_end_in_any_of_the_three_ways_and_the_last_may_have_no_end(texts, file, end, last):
    data = end.join(json.dumps({"text": f"no {n}"}).encode() for n in range(5)) + end * last
    assert texts(file("a.jsonl", data)) == [f"no {n}" for n in range(5)]


def test_a_file_of_no_bytes_has_no_documents(texts, file):
    assert texts(file("a.jsonl", b"")) == []


def test_deep_nesting_and_endless_numbers_are_broken_json_and_not_a_crash(read, file):
    deep = b"[" * 100_000 + b"]" * 100_000
    number = b"1" * 5_000
    path = file("a.jsonl", b'{"text": ' + deep + b'}\n{"text": "a", "n": ' + number + b'}\n{"text": "b"}\n')
    assert kinds(read(path)) == ["broken_json", "broken_json", "b"]


def test_a_repeated_key_matters_only_where_it_is_read(read, file):
    path = file("a.jsonl", b'{"text": "a", "id": 1, "id": 2}\n')
    assert kinds(read(path)) == ["a"]
    assert kinds(read(path, fields={"id": "int64"})) == ["duplicate_key"]


def test_a_line_above_the_limit_is_a_bad_record_with_its_size_and_the_next_is_read(read, file):
    long = json.dumps({"text": "x" * 3_000_000}).encode()
    path = file("a.jsonl", b'{"text": "a"}\n' + long + b'\n{"text": "b"}')
    records = read(path, max_document_bytes=1_000)
    assert kinds(records) == ["a", "too_long", "b"]
    assert f"a line of {len(long)} bytes, above max_document_bytes = 1000" in str(records[1])


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("split_bytes", [1, 2, 13, 14, 15, 100, 1 << 20])
def test_splits_cover_the_file_at_line_starts_and_give_every_document_once_in_order(file, end, split_bytes):
    lines = [json.dumps({"text": "é" * (n % 17)}, ensure_ascii=False).encode() for n in range(50)]
    path = file("a.jsonl", end.join(lines))
    options = TextOptions(split_bytes=split_bytes)
    splits = plan_texts(path, options).splits
    assert [split.start for split in splits] == [0, *(split.stop for split in splits)][:-1]
    assert splits[-1].stop == path.stat().st_size
    documents = [document for split in splits for document in read_split(split, options)]
    assert [document.text for document in documents] == ["é" * (n % 17) for n in range(50)]
    assert [place_in_file(document.place).number for document in documents] == list(range(1, 51))


def test_a_document_in_a_later_split_says_from_where_its_line_is_counted(file):
    path = file("a.jsonl", b'{"text": "a"}\n{"text": "b"}\n{"text": 1}\n')
    options = TextOptions(split_bytes=15)
    (_, second) = plan_texts(path, options).splits
    (bad,) = read_split(second, options)
    assert f"{path}, line 1 after byte 28: 'text': expected a string, found int" == str(bad)
    assert bad.place.byte == 28
    assert str(place_in_file(bad.place)) == f"{path}, line 3"


def test_a_file_that_changed_since_the_plan_is_refused(file):
    path = file("a.jsonl", b'{"text": "a"}\n')
    (split,) = plan_texts(path, TextOptions()).splits
    path.write_bytes(b'{"text": "longer"}\n')
    with pytest.raises(DataError, match="has 19 bytes; the plan was made when it had 14"):
        list(read_split(split, TextOptions()))


def test_declared_fields_are_copied_with_their_types(read, file):
    path = file(
        "a.jsonl",
        b'{"text": "a", "url": "u", "n": 9223372036854775807, "score": 1, "ok": true}\n'
        b'{"text": "b", "url": null, "n": -1, "score": 0.5, "ok": false}\n'
        b'{"text": "c", "n": 0, "score": 2.0, "ok": true}\n',
    )
    records = read(path, fields={"url": "string?", "n": "int64", "score": "float64", "ok": "bool"})
    assert [record.fields for record in records if isinstance(record, Document)] == [
        {"url": "u", "n": 2**63 - 1, "score": 1.0, "ok": True},
        {"url": None, "n": -1, "score": 0.5, "ok": False},
        {"url": None, "n": 0, "score": 2.0, "ok": True},
    ]


def test_every_number_type_of_a_corpus_can_be_copied(read, file):
    path = file("a.jsonl", b'{"text": "a", "f": 0.1, "h": 2, "u": 255, "i": -2147483648, "w": 18446744073709551615}\n')
    fields = {"f": "float32", "h": "float16", "u": "uint8", "i": "int32", "w": "uint64?"}
    (record,) = read(path, fields=fields)
    assert record.fields == {"f": 0.1, "h": 2.0, "u": 255, "i": -(2**31), "w": 2**64 - 1}


@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        ("int64", "null", "expected int64, found null"),
        ("int64", "true", "expected int64, found bool True"),
        ("int64", "1.0", "expected int64, found float 1.0"),
        ("int64", "9223372036854775808", "expected int64, found int 9223372036854775808"),
        ("float64", "9007199254740993", "expected float64, found int 9007199254740993"),
        ("string", "1", "expected string, found int 1"),
        ("string", '"\\ud800"', "surrogates not allowed"),
        ("bytes", '"a"', "expected bytes, found str 'a'"),
        ("bool", "0", "expected bool, found int 0"),
        ("uint8", "256", "expected uint8, found int 256"),
        ("uint8", "-1", "expected uint8, found int -1"),
        ("float32", "1e39", "expected float32, found float 1e+39"),
        ("float32", "16777217", "expected float32, found int 16777217"),
        ("float16", "true", "expected float16, found bool True"),
    ],
)
def test_a_field_that_does_not_fit_its_type_is_a_bad_record(read, file, declared, value, message):
    (bad,) = read(file("a.jsonl", b'{"text": "a", "x": %s}' % value.encode()), fields={"x": declared})
    assert bad.kind == "bad_field"
    assert message in bad.message


def test_an_absent_field_that_is_not_nullable_is_a_bad_record(read, file):
    (bad,) = read(file("a.jsonl", b'{"text": "a"}'), fields={"x": "int64"})
    assert bad.kind == "bad_field"
    assert "field 'x': expected int64, found none; there are 'text'" in bad.message
