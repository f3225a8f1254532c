"""A report as one HTML page: the answer first, then the pictures, all figures, and the commands behind them."""

from __future__ import annotations

from importlib.resources import files

from tokenyard.bench.report.charts import peers_chart, row_chart, size_chart, speed_chart, trade_off
from tokenyard.bench.report.sections import all_figures, commands, comparison_table, method, verdicts
from tokenyard.bench.report.tables import told_corpus, told_machine
from tokenyard.bench.results import BenchReport
from tokenyard.display.html import element, text
from tokenyard.display.parts import facts, html_page, section


def report_page(found: BenchReport) -> str:
    """The page: no script, nothing fetched, light or dark as the reader's system is, from phones up."""
    style = files("tokenyard.bench.report").joinpath("style.css").read_text(encoding="utf-8")
    main = element("main", *_sections(found), _footer(found))
    return html_page(f"Storage formats measured: {found.sample.source}", [style], _header(found), main)


def _header(found: BenchReport) -> str:
    sample, machine = found.sample, found.machine
    of = "" if sample.is_whole else f", a sample of {sample.of_tokens:,}"
    ways = (
        f"{len(found.variants)} ways to store"
        if len(found.variants) > 1
        else f"How {found.variants[0].variant.title} stores"
    )
    lead = (
        f"{ways} {sample.num_tokens:,} tokens{of}: written, proven equal and read "
        f"back in {_rounds(found)} on {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['file_system'] or 'a disk'}."
    )
    return element(
        "header",
        element("p", "tokenyard bench", class_="brand"),
        element("h1", text(f"Which format for {sample.source}?")),
        element("p", text(lead), class_="lead"),
    )


def _rounds(found: BenchReport) -> str:
    number = found.settings["rounds"]
    return "1 round" if number == 1 else f"{number} rounds"


def _sections(found: BenchReport) -> list[str]:
    return [
        verdicts(found),
        speed_chart(found),
        element("div", size_chart(found), trade_off(found), class_="pair"),
        row_chart(found),
        peers_chart(found),
        comparison_table(found),
        all_figures(found),
        method(found),
        section("Corpus", "", facts(told_corpus(found))),
        section("Machine", "", facts(told_machine(found))),
        commands(found),
    ]


def _footer(found: BenchReport) -> str:
    return element("footer", text(f"Measured on {found.begun.replace('T', ' ')} by tokenyard bench."))
