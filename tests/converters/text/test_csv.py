import csv
import io

import pytest

from tokenyard.converters.text import BadRecord
from tokenyard.errors import DataError


def test_quoted_cells_keep_their_commas_quotes_and_line_ends(texts, file):
    rows = ["a,b", 'say "x"', "two\nlines", "two\r\nlines", "old\rmac", "", "plain", "汉字"]
    out = io.StringIO(newline="")
    csv.writer(out).writerows([["id", "text"], *([n, row] for n, row in enumerate(rows))])
    assert texts(file("a.csv", out.getvalue().encode())) == rows


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_any_line_end_a_byte_order_mark_and_blank_lines_are_taken(texts, file, end):
    assert texts(file("a.csv", b"\xef\xbb\xbf" + end.join([b"text,n", b"a,1", b"", b"b,2"]))) == ["a", "b"]


def test_the_delimiter_is_a_tab_in_tsv_and_can_be_set(texts, file):
    assert texts(file("a.tsv", b"n\ttext\n1\ta,b\n")) == ["a,b"]
    assert texts(file("a.csv", b"n;text\n1;a,b\n"), csv_delimiter=";") == ["a,b"]


def test_rows_with_other_numbers_of_cells_are_bad_records_with_their_line(read, file):
    records = read(file("a.csv", b'text,n\n"a\nb",1\nc\nd,2,3\ne,4\n'))
    assert [record.kind if isinstance(record, BadRecord) else record.text for record in records] == [
        "a\nb",
        "wrong_columns",
        "wrong_columns",
        "e",
    ]
    assert "line 4: expected 2 cells as in the header, found 1" in str(records[1])


def test_bytes_that_are_not_utf_8_spoil_one_row_and_no_other(read, file):
    records = read(file("a.csv", b"text,n\na,1\n\xff\xfe,2\nb,3\n"))
    assert [record.kind if isinstance(record, BadRecord) else record.text for record in records] == [
        "a",
        "invalid_utf8",
        "b",
    ]


def test_cells_become_typed_fields_and_an_empty_one_is_null_where_null_is_allowed(read, file):
    fields = {"n": "int64?", "x": "float64", "ok": "bool", "s": "string?"}
    records = read(file("a.csv", b"text,n,x,ok,s\na,-5,1e3,true,q\nb,,nan,0,\n"), fields=fields)
    assert records[0].fields == {"n": -5, "x": 1000.0, "ok": True, "s": "q"}
    assert records[1].fields["n"] is None
    assert records[1].fields["s"] == ""
    assert repr(records[1].fields["x"]) == "nan"


@pytest.mark.parametrize(
    ("declared", "cell", "message"),
    [
        ("int64", "1_000", "expected int64, found '1_000'"),
        ("int64", "", "expected int64, found ''"),
        ("int64", "9223372036854775808", "expected int64, found int 9223372036854775808"),
        ("float64", "1e999", "expected float64, found '1e999'"),
        ("float64", "x", "could not convert string to float: 'x'"),
        ("bool", "yes", "expected bool, found 'yes'"),
        ("bytes", "a", "expected bytes, found 'a'"),
        ("bytes", "1", "expected bytes, found '1'"),
        ("int8", "128", "expected int8, found int 128"),
        ("float32", "1e39", "expected float32, found float 1e+39"),
    ],
)
def test_a_cell_that_does_not_fit_is_a_bad_record(read, file, declared, cell, message):
    (bad,) = read(file("a.csv", f"text,x\na,{cell}\n".encode()), fields={"x": declared})
    assert bad.kind == "bad_field"
    assert message in bad.message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"id,body\n1,a\n", "expected one column 'text', found 0; the columns are 'id', 'body'"),
        (b"text,text\na,b\n", "expected one column 'text', found 2"),
        (b'text,n\na,1\n"b,2\nc,3\n', r"line 4: broken CSV: unexpected end of data"),
        (b'text,n\n"a"b,1\nc,3\n', r"line 2: broken CSV: .* expected after"),
    ],
)
def test_what_makes_the_rest_unreadable_is_an_error_under_any_policy(read, file, data, message):
    with pytest.raises(DataError, match=message):
        read(file("a.csv", data))


def test_a_line_above_the_limit_ends_the_reading(read, file):
    with pytest.raises(DataError, match=r"line 2: a line of 203 bytes, above max_document_bytes = 100"):
        read(file("a.csv", b"text,n\n" + b"x" * 201 + b",1\na,2\n"), max_document_bytes=100)


def test_a_file_of_no_bytes_has_no_documents(texts, file):
    assert texts(file("a.csv", b"")) == []
