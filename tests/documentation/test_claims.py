"""What documents say of the project itself: the order of imports, and what can be installed."""

import re
import tomllib
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text())


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/design.md"])
def test_the_order_of_imports_is_told_as_it_is_checked(document):
    (told,) = re.findall(r"^errors <- .*$", (HOME / document).read_text(), re.MULTILINE)
    contract = next(c for c in PROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    checked = [set(re.findall(r"\w+", layer)) for layer in reversed(contract["layers"])]
    assert [set(re.findall(r"\w+", layer)) for layer in told.split("<-")] == checked
    names = {path.stem for path in (HOME / "tokenyard").iterdir() if not path.name.startswith(("_", "."))}
    assert set().union(*checked) == names - {"py"}


def test_every_extra_that_is_named_anywhere_can_be_installed():
    known = set(PROJECT["project"]["optional-dependencies"])
    folders = ("tokenyard", "docs", "examples", "benchmarks", "configs")
    files = [
        path for folder in folders for path in (HOME / folder).rglob("*") if path.suffix in (".py", ".md", ".yaml")
    ]
    named = {}
    for file in [*files, HOME / "README.md", HOME / "CONTRIBUTING.md", HOME / "CHANGELOG.md", HOME / "pyproject.toml"]:
        for extras in re.findall(r"(?:tokenyard|install '?\.)\[([\w, -]+)\]", file.read_text()):
            named |= dict.fromkeys(re.split(r", *", extras), file.name)
    assert {"torch", "tokenize", "testing"} <= set(named)
    assert {extra: file for extra, file in named.items() if extra not in known} == {}
