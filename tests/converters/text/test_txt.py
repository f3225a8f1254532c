import pytest

from tokenyard.converters.text import BadRecord
from tokenyard.errors import ConfigError


def test_a_file_is_one_document_with_its_line_ends_as_they_are(texts, file):
    assert texts(file("a.txt", b"one\r\ntwo\rthree\n\n")) == ["one\r\ntwo\rthree\n\n"]


def test_a_byte_order_mark_is_no_part_of_the_text(texts, file):
    path = file("a.txt", "\ufeffone\n\ufefftwo".encode())
    assert texts(path) == ["one\n\ufefftwo"]
    assert texts(path, txt_documents="line") == ["one", "\ufefftwo"]


def test_a_file_of_no_bytes_is_one_empty_document_or_no_lines(texts, file):
    path = file("a.txt", b"")
    assert texts(path) == [""]
    assert texts(path, txt_documents="line") == []


def test_every_line_is_a_document_and_blank_ones_are_left_out_only_when_asked(texts, file):
    path = file("a.txt", b"a\n\n \nb\r\n\r\nc")
    assert texts(path, txt_documents="line") == ["a", "", " ", "b", "", "c"]
    assert texts(path, txt_documents="line", skip_blank_lines=True) == ["a", "b", "c"]


def test_only_line_feeds_and_carriage_returns_end_a_line(texts, file):
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f"
    assert texts(file("a.txt", text.encode()), txt_documents="line") == [text]


@pytest.mark.parametrize("documents", ["file", "line"])
def test_bytes_that_are_not_utf_8_are_a_bad_record_that_says_where(read, file, documents):
    (bad,) = read(file("a.txt", b"ab\xe9cd"), txt_documents=documents)
    assert isinstance(bad, BadRecord)
    assert bad.kind == "invalid_utf8"
    assert "not UTF-8: byte 0xE9 at byte 2 of the text" in bad.message


def test_utf_16_is_named_as_such(read, file):
    (bad,) = read(file("a.txt", "hello".encode("utf-16")))
    assert "it begins with the byte-order mark of UTF-16: convert it to UTF-8" in bad.message


def test_a_file_above_the_limit_is_a_bad_record(read, file):
    (bad,) = read(file("a.txt", b"x" * 101), max_document_bytes=100)
    assert str(bad).endswith("a.txt: a document of more than max_document_bytes = 100 bytes")
    (good,) = read(file("a.txt", b"x" * 100), max_document_bytes=100)
    assert good.text == "x" * 100


def test_plain_text_has_no_fields(read, file):
    with pytest.raises(ConfigError, match=r"plain text has no fields; asked for url"):
        read(file("a.txt", b"x"), fields={"url": "string"})
