"""The page in headless Chromium: it fits phones and screens, follows the system's colors, and asks for nothing."""

import struct

import pytest

from tests.browser import browse, chromium, in_frame, measured, with_measure
from tests.looking.corpora import hostile, made_page
from tests.looking.test_page import ORDER
from tokenyard.looking.contents import LookSettings, look_into
from tokenyard.looking.page import corpus_page

__all__ = ["browse", "chromium"]  # fixtures

LONG = "s3/a-very-long-name-of-a-corpus/without/any/space/in/it/that/a/phone/could/break/" + "x" * 80


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("two", [False, True], ids=["one", "two"])
def test_nothing_lies_outside_of_any_screen(browse, tmp_path, width, two):
    page, _ = made_page(tmp_path / "corpora", two=two, name=LONG, order=ORDER)
    found = measured(browse(in_frame(page, width), "--window-size=1400,900", "--dump-dom"))
    assert found["width"] == width
    assert found["scroll_width"] <= width
    assert found["outside"] == []
    assert found["pictures"] == (2 if two else 1)
    assert max(found["bars"]) > width / 6


@pytest.mark.parametrize(("scheme", "ground"), [(0, "rgb(15, 18, 23)"), (1, "rgb(246, 247, 249)")])
def test_colors_are_those_that_the_system_prefers(browse, tmp_path, scheme, ground):
    page, _ = made_page(tmp_path / "corpora", order=ORDER)
    found = measured(browse(with_measure(page), f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom"))
    assert found["ground"] == ground
    assert found["resources"] == []


def test_tokens_of_every_kind_stand_in_their_lines(browse, tmp_path):
    found = look_into(hostile(tmp_path / "c"), "c", LookSettings(), None)
    shown = measured(browse(with_measure(corpus_page([found], command="")), "--dump-dom"))
    assert (len(shown["tokens"]), shown["displaced"]) == (6, 0)
    assert 0 < min(shown["tokens"]) <= max(shown["tokens"]) < 40


def test_the_page_is_painted(browse, tmp_path):
    page, _ = made_page(tmp_path / "corpora", two=True, order=ORDER)
    browse(page, "--window-size=1200,1600", f"--screenshot={tmp_path / 'page.png'}")
    picture = (tmp_path / "page.png").read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (1200, 1600)
    # A blank page of that size is about 10 kB.
    assert len(picture) > 50_000
