"""The fast way through a line of JSON takes and refuses what the slow way does, and gives the same."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tokenyard.converters.text import TextOptions
from tokenyard.converters.text.document import BadRecord, Document, Place
from tokenyard.converters.text.jsonl import _parse_plain, parse_object, read_object
from tokenyard.converters.text.records import RecordReader

PLACE = Place(path="a.jsonl", unit="line", number=1)
RECORDS = RecordReader(TextOptions())


def slow(data: bytes, records: RecordReader = RECORDS) -> Document | BadRecord:
    found = parse_object(data, PLACE, records)
    return found if isinstance(found, BadRecord) else records.document(found, PLACE)


TEXTS = (
    st.text()
    | st.integers(0, 80).map("x".__mul__)
    | st.sampled_from(['{"text": 1}', '\\u0041": ', '"', "\\", "text", "\ud800", "\u2028", "\0"])
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "a", "é"]), inner, max_size=2),
    max_leaves=5,
)
NAMES = st.sampled_from(['"text"', '"\\u0074ext"', '"te\\u0078t"', '"a"', '"a\\"b"', '"\\u00e9"', '"texts"', '""'])


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Objects with keys spelled in several ways, some twice, some with a byte changed."""
    ascii_only = draw(st.booleans())
    pairs = [
        f"{name}{draw(st.sampled_from(['', ' ', chr(9)]))}:{json.dumps(value, ensure_ascii=ascii_only)}"
        for name, value in draw(st.lists(st.tuples(NAMES, TEXTS | VALUES), max_size=4))
    ]
    data = bytearray(("{" + ",".join(pairs) + "}").encode("utf-8", "surrogatepass"))
    if draw(st.booleans()):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@given(lines())
@example(b'{"text": "a", "\\u0074ext": "b"}')
@example(b'{"te\\u0078t": "a", "text": "b"}')
@example(b'{"text": "short", "text": "a text that is longer than all of the line in front of it, by far"}')
@example(b'{"text": "a text that is longer than all of the line behind it, by far", "text": "short"}')
@example(b'{"text": "a text that is longer than all of the line behind it, by far", "\\u0074ext": "short"}')
@example(b'{"\\u0074ext": "short", "text": "a text that is longer than all of the line in front of it, by far"}')
@example(b'{"te\\u0078t": "short", "tex\\u0074": "a text that is longer than all of the line in front of it"}')
@example(b'{"meta": {"text": "inner"}, "text": "outer"}')
@example(b'{"text": "outer", "meta": {"text": "a text that is longer than all of the line in front of it"}}')
@example(b'{"text": NaN}')
@example(b'{"n": ' + b"9" * 5000 + b', "text": ""}')
@example(b'{"n": ' + b"[" * 300 + b"]" * 300 + b', "text": ""}')
@example(b'\xef\xbb\xbf{"text": ""}')
def test_a_line_gives_the_same_in_both_ways(data: bytes) -> None:
    assert read_object(data, PLACE, RECORDS) == slow(data)


@pytest.mark.parametrize(
    "line", [b'{"text": "a \\u00e9 b"}', b'{"id": 7, "text": "{\\"text\\": 1}"}', '{"text": "ü"}'.encode()]
)
def test_ordinary_lines_take_the_fast_way(line: bytes) -> None:
    assert _parse_plain(line, RECORDS) == json.loads(line)


@pytest.mark.parametrize("options", [{"text_field": 'te"xt'}, {"text_field": "té"}, {"fields": {"n": "float64"}}])
def test_names_that_need_escapes_and_fields_take_the_slow_way(options: dict[str, object]) -> None:
    assert RecordReader(TextOptions(**options)).plain_key is None  # type: ignore[arg-type]
