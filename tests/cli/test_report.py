"""The command report: one page, of one corpus or two, the same each time."""

import json
import sys

import pytest
import yaml

from tests.cli.commands import run
from tests.corpora import random_rows, write_corpus
from tests.runs import packed_rows
from tokenyard.errors import ConfigError, StorageError
from tokenyard.storage.objects import open_objects


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("report")
    packed_rows(home / "packed", "npy", pad=True)
    write_corpus(home / "docs", random_rows(1, 30, 3000), format="mds")
    return home


def report(home, *arguments):
    said = run("report", *arguments, "--output", home / "page.html")
    assert said == f"page: {home / 'page.html'}\n"
    return (home / "page.html").read_text()


def test_the_page_is_the_same_each_time_and_has_an_order(home):
    page = report(home, home / "packed")
    assert page == report(home, home / "packed")
    assert "Which samples (rows) go to which rank" in page
    assert page.count('class="sample"') == 5 * 8


def test_documents_are_drawn_as_windows(home):
    assert "Which samples (windows of 2,048 tokens) go to which rank" in report(home, home / "docs", "--world-size", 2)


def test_a_corpus_too_small_for_a_step_has_no_order_and_is_told_why(home):
    write_corpus(home / "small", [[1, 2]])
    assert "The order of a small run is not drawn: " in report(home, home / "small")


def test_the_order_of_a_run_of_ones_own_is_drawn(home):
    sample = {"mode": "rows"}
    config = {"data": {"path": "/elsewhere", "sample": sample}, "order": {"global_batch_size": 10}}
    (home / "train.yaml").write_text(yaml.safe_dump(config))
    page = report(home, home / "packed", "--config", home / "train.yaml", "--steps", 3, "--world-size", 2)
    assert page.count('class="sample"') == 3 * 10
    assert "train.yaml --step 0 --world-size 2" in page


def test_without_torch_the_order_is_left_out_and_that_is_said(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("tokenyard.datasets")]:
        monkeypatch.delitem(sys.modules, name)
    page = report(home, home / "packed")
    assert "The order of training is not drawn: it needs torch" in page
    assert 'id="order"' not in page


def test_two_corpora_come_on_one_page(home):
    page = report(home, home / "packed", home / "docs")
    assert 'id="difference"' in page
    assert page.count('class="columns"') == 2


def test_a_page_that_can_not_be_written_is_an_error(home):
    with pytest.raises(ConfigError, match=r"--output: there is no folder .*nowhere; make it, or name another one"):
        run("report", home / "packed", "-o", home / "nowhere" / "page.html")
    with pytest.raises(StorageError, match="can't write"):
        run("report", home / "packed", "-o", home)


def test_a_corpus_at_a_url_is_looked_into(home):
    url = "memory://looking/packed"
    objects = open_objects(url)
    for file in (home / "packed").rglob("*"):
        if file.is_file():
            objects.put(file.relative_to(home / "packed").as_posix(), file.read_bytes())
    there, here = (json.loads(run("info", path, "--full", "--json")) for path in (url, home / "packed"))
    assert {k: v for k, v in there.items() if k != "path"} == {k: v for k, v in here.items() if k != "path"}
    assert run("peek", url, "--row", "0:40") == run("peek", home / "packed", "--row", "0:40")
    page = report(home, url, home / "packed")
    assert "The content digests are equal: all rows are the same." in page
    assert 'id="order"' in page
