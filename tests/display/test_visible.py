"""What acts on a terminal or in a line of text is shown as a sign."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.display.quantities import percent
from tokenyard.display.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("漢字 é 🙂", "漢字 é 🙂"),
        ("\x1b[31mred\x07", "␛[31mred␇"),
        ("a\r\x08b\x7f", "a␍␈b␡"),
        ("\x9b31m", "<U+009B>31m"),
        ("abc\u202egnp.exe", "abc<U+202E>gnp.exe"),
        ("\u2066x\u2069\ufeff\u2028", "<U+2066>x<U+2069><U+FEFF><U+2028>"),
        ("half \ud800", "half <U+D800>"),
        ("👩\u200d👧", "👩\u200d👧"),
    ],
)
def test_what_acts_is_spelled_out_and_what_is_text_stays(text, shown):
    assert visible(text) == shown


def test_lines_and_tabs_are_shown_as_asked():
    assert visible("a\n\tb") == "a\n\tb"
    assert visible("a\n\tb", newline="⏎", tab="⇥") == "a⏎⇥b"


@given(st.text(st.characters(), max_size=40))
def test_nothing_that_acts_is_left_of_any_text(text):
    shown = visible(text, newline="⏎", tab="⇥")
    assert {unicodedata.category(c) for c in shown if c not in "\u200c\u200d"}.isdisjoint(
        {"Cc", "Cf", "Cs", "Zl", "Zp"}
    )


@pytest.mark.parametrize(
    ("share", "told"), [(0, "0 %"), (1e-7, "< 0.001 %"), (0.123456, "12.3 %"), (0.99999, "100 %"), (1, "100 %")]
)
def test_shares_are_told_with_three_digits(share, told):
    assert percent(share) == told
