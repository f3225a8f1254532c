"""The site in headless Chromium: no page is wider than a phone, and drawings can be read there, in light and dark."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import browse, chromium, measured

__all__ = ["browse", "chromium"]  # fixtures

DOCS = Path(__file__).parents[2] / "docs"
DRAWINGS = sorted(DOCS.glob("_static/*.svg"))
SCHEMES = {"dark": 0, "light": 1}
FRAMES = """
onload = () => document.title = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => {
  const page = frame.contentDocument, width = page.documentElement.clientWidth;
  const sticks = e => e.getBoundingClientRect().right > width + 0.5;
  const scrolls = e => ["auto", "scroll"].includes(frame.contentWindow.getComputedStyle(e).overflowX);
  const reachable = e => { for (let p = e; p !== page.body; p = p.parentElement) if (scrolls(p)) return true; };
  return {
    page: frame.dataset.page, width, scroll_width: page.documentElement.scrollWidth,
    outside: [...page.querySelectorAll("article *")].filter(e => sticks(e) && !reachable(e)).map(e => e.outerHTML),
    hidden: [...page.querySelectorAll("table.keys td")].filter(sticks).length,
    keys: page.querySelectorAll("table.keys").length,
    pictures: [...page.querySelectorAll("article img[src$='.svg']")].map(e => e.getBoundingClientRect().width),
  };
}));
"""
TEXTS = """
onload = () => {
  const boxes = [...document.querySelectorAll("rect")], all = boxes[0].getBBox();
  document.title = JSON.stringify([...document.querySelectorAll("text")].map(text => {
    const t = text.getBBox();
    const touched = boxes.slice(1).filter(b => { const r = b.getBBox();
      return t.x < r.x + r.width && r.x < t.x + t.width && t.y + 4 < r.y + r.height && r.y < t.y + t.height - 4; });
    const holds = r => r.x <= t.x && t.x + t.width <= r.x + r.width;
    return {
      text: text.textContent, size: parseFloat(getComputedStyle(text).fontSize) / all.width,
      fits: holds(all) && t.y + t.height <= all.height && touched.every(b => holds(b.getBBox())),
      ink: getComputedStyle(text).fill, ground: getComputedStyle(touched[0] || boxes[0]).fill,
    };
  }));
};
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(folder)]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def script_page(body: str, script: str) -> str:
    return f"<!doctype html><title></title>{body}<script>{script}</script>"


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_page_is_wider_than_the_screen_and_drawings_can_be_read(browse, site, width):
    pages = sorted(site.rglob("*.html"))
    frames = "".join(f'<iframe data-page="{page.relative_to(site)}" src="{page.as_uri()}"></iframe>' for page in pages)
    flags = ["--allow-file-access-from-files", "--virtual-time-budget=60000", "--dump-dom"]
    style = f"<style>iframe {{ border: 0; width: {width}px; height: 900px }}</style>"
    found = measured(browse(script_page(style + frames, FRAMES), *flags))
    assert len(found) == len(pages) > 20
    assert [page for page in found if page["width"] != width or page["scroll_width"] > width or page["outside"]] == []
    assert sum(page["keys"] for page in found) > 10
    assert sum(page["hidden"] for page in found) == 0
    widths = [width for page in found for width in page["pictures"]]
    assert len(widths) == len(DRAWINGS)
    assert min(widths) * smallest_text() >= 9


def smallest_text() -> float:
    """The smallest text of all drawings, as a share of their width; there is one size."""
    sizes = [re.search(r'viewBox="0 0 (\d+) .*?font:(\d+)px', d.read_text(), re.DOTALL) for d in DRAWINGS]
    return min(int(size[2]) / int(size[1]) for size in sizes if size)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda path: path.stem)
def test_text_of_drawings_stays_in_its_box_and_stands_out_of_its_ground(browse, drawing, scheme):
    page = script_page(drawing.read_text(), TEXTS)
    found = measured(browse(page, f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", "--dump-dom"))
    assert len(found) == drawing.read_text().count("<text") > 0
    assert [text["text"] for text in found if not text["fits"]] == []
    assert [text for text in found if contrast(text["ink"], text["ground"]) < 4.5] == []


def contrast(one: str, other: str) -> float:
    """The ratio of two colors' luminance that WCAG 2 defines; 4.5 is its least for text."""
    darker, lighter = sorted(luminance(*map(int, re.findall(r"\d+", color)[:3])) for color in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(*channels: int) -> float:
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_contrast_is_that_of_the_standard():
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.01)
