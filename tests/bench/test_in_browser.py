"""The page in headless Chromium: it fits phones and screens, follows the system's colors, and asks for nothing."""

import html
import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.bench.reports import made_report
from tokenyard.bench import report_page

NAMES = ("chromium", "chromium-browser", "google-chrome")
LONG = "s3/a-very-long-name-of-a-corpus/without/any/space/in/it/that/a/phone/could/break/" + "x" * 80
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
MEASURE = """
const found = document.defaultView === undefined ? null : {
  width: WIDTH_OF.documentElement.clientWidth,
  scroll_width: WIDTH_OF.documentElement.scrollWidth,
  ground: getComputedStyle(WIDTH_OF.body).backgroundColor,
  ink: getComputedStyle(WIDTH_OF.body).color,
  outside: [...WIDTH_OF.querySelectorAll("main *")].filter(e => !e.closest(".scroll") && !e.closest(".unseen")
    && e.getBoundingClientRect().right > WIDTH_OF.documentElement.clientWidth + 0.5).map(e => e.outerHTML.slice(0, 99)),
  small: [...WIDTH_OF.querySelectorAll("svg text")].filter(e => e.getBoundingClientRect().height
    && e.getBoundingClientRect().height < 9).length,
  pictures: [...WIDTH_OF.querySelectorAll("svg")].filter(e => e.getBoundingClientRect().width).length,
  bars: [...WIDTH_OF.querySelectorAll(".fill")].map(e => e.getBoundingClientRect().width),
  resources: performance.getEntriesByType("resource").map(e => e.name),
};
document.title = JSON.stringify(found);
"""


@pytest.fixture(scope="session")
def chromium():
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed: apt-get install chromium")
    return found


@pytest.fixture
def browse(chromium, tmp_path):
    """Run Chromium on a page; returns what it printed. Nothing of the user's profile is read or left."""

    def run(page, *arguments):
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        command = [chromium, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
        done = subprocess.run(
            [*command, (tmp_path / "page.html").as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def measured(dom):
    return json.loads(html.unescape(re.search("<title>(.*?)</title>", dom, re.DOTALL)[1]))


def in_frame(page, width):
    """A page that shows another one in a frame, since windows can't be as narrow as a phone, and measures it."""
    script = MEASURE.replace("WIDTH_OF", 'document.querySelector("iframe").contentDocument')
    frame = f'<iframe style="width:{width}px;height:6000px;border:0" srcdoc="{html.escape(page)}"></iframe>'
    return f"<!doctype html><title></title>{frame}<script>onload = () => {{{script}}}</script>"


def with_measure(page):
    script = MEASURE.replace("WIDTH_OF", "document")
    return page.replace("</body>", f"<script>onload = () => {{{script}}}</script></body>")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("source", ["data/packed", LONG], ids=["short", "long"])
def test_nothing_lies_outside_of_any_screen(browse, width, source):
    found = measured(browse(in_frame(report_page(made_report(source)), width), "--window-size=1400,900", "--dump-dom"))
    assert found["width"] == width
    assert found["scroll_width"] <= width
    assert found["outside"] == []
    assert found["pictures"] == 1
    assert found["small"] == 0
    assert max(found["bars"]) > width / 6


@pytest.mark.parametrize(("scheme", "ground"), [(0, "rgb(15, 18, 23)"), (1, "rgb(246, 247, 249)")])
def test_colors_are_those_that_the_system_prefers(browse, scheme, ground):
    dom = browse(
        with_measure(report_page(made_report())), f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom"
    )
    found = measured(dom)
    assert found["ground"] == ground
    assert found["resources"] == []


def test_the_page_is_painted(browse, tmp_path):
    browse(report_page(made_report()), "--window-size=1200,1600", f"--screenshot={tmp_path / 'page.png'}")
    picture = Path(tmp_path / "page.png").read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (1200, 1600)
    # A blank page of that size is about 10 kB.
    assert len(picture) > 50_000
