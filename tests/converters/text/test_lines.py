import re

from hypothesis import given
from hypothesis import strategies as st

from tokenyard.converters.text import lines
from tokenyard.converters.text.lines import place_in_file, plan_lines, read_lines
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.split import SourceFile

CONTENT = st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n", b"\r\n", b"\xef\xbb\xbf"]), max_size=30).map(b"".join)


def expected_lines(data):
    """Split by a regex, the other way to say what a line is."""
    parts = re.split(rb"(\r\n|\r|\n)", data)
    texts, ends = parts[::2], [*parts[1::2], b""]
    found, byte = [], 0
    for text, end in zip(texts, ends, strict=True):
        if text or end:
            found.append((byte, text.removeprefix(b"\xef\xbb\xbf") if byte == 0 else text, end))
        byte += len(text) + len(end)
    return found


@given(data=CONTENT, chunk=st.integers(1, 8), split_bytes=st.integers(1, 12))
def test_any_bytes_any_reads_and_any_splits_give_the_same_lines(tmp_path_factory, data, chunk, split_bytes):
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(data)
    file = SourceFile(path=str(path), kind="txt", compression="none", num_bytes=len(data))
    options = TextOptions(split_bytes=split_bytes)
    usual, lines._CHUNK = lines._CHUNK, chunk
    try:
        found = [item for split in plan_lines(file, options) for item in read_lines(split, options, keep_ends=True)]
        numbers = [place_in_file(place).number for place, _ in found]
    finally:
        lines._CHUNK = usual
    assert [(place.byte, line) for place, line in found] == [
        (byte, text + end) for byte, text, end in expected_lines(data)
    ]
    assert numbers == list(range(1, len(found) + 1))
