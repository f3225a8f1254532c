"""Pages in headless Chromium: measured in a frame of any width, in light and dark, and painted."""

import html
import json
import os
import re
import shutil
import subprocess

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers keep it small
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
  displaced: [...WIDTH_OF.querySelectorAll(".t")].filter(e => getComputedStyle(e).position !== "static").length,
  tokens: [...WIDTH_OF.querySelectorAll(".t")].map(e => e.getBoundingClientRect().height),
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
