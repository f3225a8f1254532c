"""The page: self-contained, linked within itself, and true to the figures."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from xml.etree import ElementTree

import pytest

from tests.bench.reports import TYPICAL, made_report
from tokenyard.bench import report_page
from tokenyard.bench.metrics import METRICS, Figure
from tokenyard.bench.report.scatter import Point, scatter
from tokenyard.bench.report.tables import comparison, peer_lines, told_corpus, told_spread
from tokenyard.bench.variants import parse_variants
from tokenyard.display.html import element

VOID = {"meta", "br"}


class Page(HTMLParser):
    """What a page holds; an element that isn't closed where it should be is an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.texts = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        found = dict(attributes)
        self.tags.append((tag, found))
        self.ids += [found["id"]] if found.get("id") else []
        self.links += [found["href"]] if "href" in found else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)


@pytest.fixture(scope="module")
def page():
    return Page(report_page(made_report()))


def test_the_page_fetches_nothing_and_runs_nothing():
    text = report_page(made_report())
    assert not re.search(r"https?:|//|@import|url\(|<script|<link|<img|\bsrc=|\bon\w+=", text)


def test_every_link_leads_to_a_place_on_the_page(page):
    assert page.links
    assert all(link.startswith("#") for link in page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)


def test_every_format_has_its_commands_and_every_figure_leads_there(page):
    for variant in parse_variants(list(TYPICAL)):
        assert f"cmd-{variant.key}" in page.ids
        # Speed, size, trade-off in two widths, one row, comparison, all figures.
        assert page.links.count(f"#cmd-{variant.key}") >= 7
        assert f"python -m worker write {variant.key}" in page.text
    assert "tokenyard bench data/packed" in page.text
    assert "tokenyard convert data/packed DST --to mds -o compression=zstd" in page.text


def test_every_metric_is_shown_and_explained(page):
    for metric in METRICS.values():
        assert metric.title in page.text
        assert metric.meaning in page.text


def test_names_from_outside_are_text_and_no_markup():
    text = report_page(made_report('<b onload="x">&amp;'))
    assert "<b onload" not in text
    assert "&lt;b onload=&quot;x&quot;&gt;&amp;amp;" in text
    Page(text)


def test_pictures_have_titles_and_tables_have_captions(page):
    tags = [tag for tag, _ in page.tags]
    assert tags.count("svg") == tags.count("desc") == 2
    assert tags.count("table") == tags.count("caption")
    assert tags.count("h1") == 1
    assert all(found.get("lang") for tag, found in page.tags if tag == "html")


def test_what_was_not_measured_is_left_out_or_told():
    text = Page(report_page(made_report(cold=False, peers=False))).text
    assert "cold: read from the disk" not in text
    assert "Other libraries" not in text
    assert "webdataset is not installed" in Page(report_page(made_report())).text


def test_a_single_format_and_a_single_round_make_a_page_too():
    report = made_report()
    one = replace(report, variants=report.variants[:1], peers=(), choices=(), settings={**report.settings, "rounds": 1})
    text = Page(report_page(one)).text
    assert "npy stores" in text
    assert "in 1 round" in text


def test_a_format_of_a_package_of_its_own_has_a_place_too():
    report = made_report()
    own = replace(report.variants[0].variant, spec="arrowfile", format="arrowfile")
    variants = (replace(report.variants[0], variant=own), *report.variants[1:])
    grades = {**report.grades, "arrowfile": report.grades["npy"]}
    text = report_page(replace(report, variants=variants, grades=grades, choices=()))
    assert "arrowfile" in Page(text).text


def test_the_comparison_says_what_each_format_was_chosen_for():
    header, lines = comparison(made_report())
    found = {line[0]: dict(zip(header, line, strict=True)) for line in lines}
    assert found["npy"]["recommended for"] == "train from this disk; look up single rows"
    assert found["parquet zstd"]["recommended for"] == "store, or send over a network; for DuckDB, pandas, datasets"
    assert found["npy"]["shuffled read"] == "600 Mtok/s"


def test_peers_stand_beside_the_same_work_of_ours():
    _, lines = peer_lines(made_report())
    assert lines[0] == (
        "StreamingDataset (mosaicml-streaming 0.13.0)",
        "mds",
        "training",
        "9.00 Mtok/s",
        "590 Mtok/s",
        "65.6x",
    )
    assert lines[1][3] == "webdataset is not installed"


def test_a_spread_names_its_unit_once_where_it_can():
    (result, *_) = made_report().variants
    assert told_spread(result, "loader") == "540 to 660 Mtok/s"
    wide = replace(result, figures={"row_p50": Figure(values=(900.0, 1100.0))})
    assert told_spread(wide, "row_p50") == "900 µs to 1.10 ms"
    assert told_spread(wide, "loader") == ""


def test_a_sample_is_told_to_be_one():
    assert "a sample of 1,048,576 rows" in told_corpus(made_report())["measured"]


def test_elements_escape_attributes_and_leave_out_what_is_none():
    assert (
        element("a", "x", href='"<', class_="b", aria_label=None, hidden=True)
        == '<a href="&quot;&lt;" class="b" hidden>x</a>'
    )


@pytest.mark.parametrize("width", [340, 470])
def test_names_in_the_plot_hide_neither_points_nor_each_other(width):
    points = [Point(name=n, x=4.2e6 / size, y=speed, paint="npy", href="#") for n, (speed, size, _) in TYPICAL.items()]
    svg = ElementTree.fromstring(scatter("t", "d", points, x_title="x", y_title="y", width=width, height=360))
    boxes = []
    for link in svg.iter("a"):
        dot, label = link.find("circle"), link.find("text")
        x, y, size = float(label.get("x")), float(label.get("y")), len(label.text) * 6.0
        left = {"start": x, "middle": x - size / 2, "end": x - size}[label.get("text-anchor")]
        assert left >= 0
        assert left + size <= width
        boxes.append((left, y - 9, left + size, y + 1))
        cx, cy = float(dot.get("cx")), float(dot.get("cy"))
        boxes.append((cx - 3, cy - 3, cx + 3, cy + 3))
    hidden = [
        (a, b)
        for i, a in enumerate(boxes)
        for b in boxes[:i]
        if min(a[2], b[2]) > max(a[0], b[0]) and min(a[3], b[3]) > max(a[1], b[1])
    ]
    # Two points may lie on one another, as csv and jsonl do; names may not.
    assert len(hidden) <= 3


def colors(text):
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", text))


def luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_marks_stand_out_from_their_ground(scheme):
    found = {}
    for package, name in (("tokenyard.display", "page.css"), ("tokenyard.bench.report", "style.css")):
        light, _, rest = (files(package) / name).read_text().partition("prefers-color-scheme: dark")
        found |= colors(light) if scheme == "light" else colors(light) | colors(rest)
    for ground in ("ground", "card", "chosen"):
        for ink in ("ink", "soft"):
            assert contrast(found[ink], found[ground]) >= 4.5, (ink, ground)
    for grade in ("best", "good", "fair", "poor"):
        assert contrast(found[grade], found[f"{grade}-ground"]) >= 4.5, grade
    # WCAG asks 3 of what a picture is made of; paler bars have their figure beside them.
    for paint in ("first", "npy", "mds", "webdataset", "parquet", "jsonl", "csv"):
        assert contrast(found[paint], found["card"]) >= 3, paint
