"""The README in Chinese is the README: same code, headings, tables, links and names, section by section."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.documentation.blocks import blocks_of

HOME = Path(__file__).parents[2]
ENGLISH, CHINESE = HOME / "README.md", HOME / "README.zh.md"
_FENCED = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Section:
    """What is the same in every language: the level of a heading, and what stands below it.

    Attributes:
        level: of the heading.
        shape: of each paragraph, list item, table row and block of code, in order: its kind, and a row's cells.
        code: inline code, by how often it comes; of table rows it is in ``rows``.
        links: where they lead; to a heading, by its number.
        rows: the inline code and links of each row of a table.
    """

    level: int
    shape: list[str]
    code: Counter[str]
    links: Counter[str]
    rows: list[tuple[Counter[str], Counter[str]]]


def sections_of(text: str) -> list[Section]:
    text = _FENCED.sub("(code)", text)
    headings = [anchor_of(found[2]) for found in _HEADING.finditer(text)]
    starts = [found.start() for found in _HEADING.finditer(text)]
    assert starts[0] == 0
    return [_section(text[a:b], headings) for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def anchor_of(heading: str) -> str:
    """The anchor that GitHub and the site give a heading."""
    return "#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _section(text: str, headings: list[str]) -> Section:
    heading, _, body = text.partition("\n")
    pieces = [piece for block in body.split("\n\n") for piece in _pieces(block.strip()) if piece]
    rows = [piece for piece in pieces if piece.startswith("|")]
    prose = "\n".join(piece for piece in pieces if not piece.startswith("|"))
    return Section(
        level=heading.index(" "),
        shape=[_kind(piece) for piece in pieces],
        code=Counter(_CODE.findall(prose)),
        links=_links(prose, headings),
        rows=[(Counter(_CODE.findall(row)), _links(row, headings)) for row in rows],
    )


def _pieces(block: str) -> list[str]:
    """A block between empty lines: a paragraph, or its list items, or its rows."""
    return re.split(r"\n(?=[-|] ?)", block) if block[:1] in ("-", "|") else [block]


def _kind(piece: str) -> str:
    if piece.startswith("|"):
        return f"row of {piece.count('|') - 1}"
    return "item" if piece.startswith("- ") else "code" if piece == "(code)" else "paragraph"


def _links(text: str, headings: list[str]) -> Counter[str]:
    places = (f"heading {headings.index(to)}" if to.startswith("#") else to for to in _LINK.findall(text))
    return Counter("README" if place.startswith("README") else place for place in places)


def test_both_have_the_same_code_in_the_same_order():
    english, chinese = ([(b.language, b.code) for b in blocks_of(page)] for page in (ENGLISH, CHINESE))
    assert chinese == english
    assert len(english) > 20


def test_both_have_the_same_sections_tables_links_and_names():
    english, chinese = (sections_of(page.read_text()) for page in (ENGLISH, CHINESE))
    assert [section.level for section in chinese] == [section.level for section in english]
    for number, (ours, theirs) in enumerate(zip(english, chinese, strict=True)):
        assert theirs == ours, f"section {number}: {_HEADING.findall(ENGLISH.read_text())[number][1]}"


def test_each_leads_to_the_other_in_its_first_lines():
    for page, other in ((ENGLISH, CHINESE), (CHINESE, ENGLISH)):
        assert f"]({other.name})" in page.read_text().splitlines()[2]


def test_every_paragraph_is_translated():
    text = _FENCED.sub("", CHINESE.read_text())
    paragraphs = [p for block in text.split("\n\n") for p in _pieces(block.strip()) if p and not p.startswith("|")]
    untold = [p for p in paragraphs if not re.search(r"[\u4e00-\u9fff]", p)]
    assert untold == ["# tokenyard", "[English](README.md)", "[Apache-2.0](LICENSE)"]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("# a\n\none\n\ntwo", "# a\n\none"),
        ("# a\n\nuse `x`", "# a\n\nuse `y`"),
        ("# a\n\n- one\n- two", "# a\n\n- one"),
        ("# a\n\n## b\n\nc", "# a\n\n### b\n\nc"),
        ("# a\n\n| b | c |\n|---|---|\n| 1 | 2 |", "# a\n\n| b | c |\n|---|---|"),
        ("# a\n\n| b |\n|---|\n| `1` |\n| `2` |", "# a\n\n| b |\n|---|\n| `2` |\n| `1` |"),
        ("# a\n\n[b](docs/b.md)", "# a\n\n[b](docs/c.md)"),
        ("# a\n\n[b](#b)\n\n## b\n\n## c", "# a\n\n[b](#c)\n\n## b\n\n## c"),
        ("# a\n\n```\nx\n```\n\nb", "# a\n\nb\n\n```\nx\n```"),
    ],
)
def test_what_drifts_is_seen(ours, theirs):
    assert sections_of(ours) != sections_of(theirs)
    assert sections_of(ours) == sections_of(ours)
