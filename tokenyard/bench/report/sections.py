"""The sections of text and tables."""

from __future__ import annotations

from collections.abc import Sequence

from tokenyard.bench import grades
from tokenyard.bench.metrics import METRICS
from tokenyard.bench.report.parts import anchor
from tokenyard.bench.report.tables import comparison, recommended, titles, told, told_spread
from tokenyard.bench.results import BenchReport, VariantResult
from tokenyard.display.html import element, text
from tokenyard.display.parts import code, section
from tokenyard.display.quantities import with_unit


def verdicts(found: BenchReport) -> str:
    """What to take for what; the first one large."""
    items = (
        element(
            "li",
            element("p", text(choice.purpose), class_="for"),
            element("p", element("a", text(choice.title), href=anchor(found, choice.variant)), class_="take"),
            element("p", text(f"{choice.because[:1].upper()}{choice.because[1:]}."), class_="why"),
            element("p", text(f"Rule: {choice.rule}."), class_="rule"),
        )
        for choice in found.choices
    )
    return element("ul", *items, class_="verdicts", aria_label="What to take for what")


def comparison_table(found: BenchReport) -> str:
    """The comparison with grades."""
    header = ("Format", "Shuffled read", "Compression", "One row", "Recommended for")
    _, lines = comparison(found)
    body = "".join(
        _comparison_row(found, result, line, header) for result, line in zip(found.variants, lines, strict=True)
    )
    head = element("tr", *(element("th", text(name), scope="col", role="columnheader") for name in header), role="row")
    return section(
        "Comparison",
        grades.RULE,
        element(
            "table",
            element("caption", "Formats compared", class_="unseen"),
            element("thead", head, role="rowgroup"),
            element("tbody", body, role="rowgroup"),
            class_="compare",
            role="table",
        ),
        id_="comparison",
    )


def _comparison_row(found: BenchReport, result: VariantResult, line: Sequence[str], header: Sequence[str]) -> str:
    cells = [
        element(
            "td",
            element("span", text(line[1 + 2 * i]), element("span", text(grade), class_=f"grade {grade}")),
            data_label=header[1 + i],
            role="cell",
        )
        for i in range(3)
        for grade in [line[2 + 2 * i]]
    ]
    purpose = element("td", element("span", text(recommended(found, result))), class_="for", role="cell")
    name = element("a", text(result.variant.title), href=anchor(found, result.variant.spec))
    return element("tr", element("th", name, scope="row", role="rowheader"), *cells, purpose, role="row")


def all_figures(found: BenchReport) -> str:
    """Every figure with its spread; formats side by side."""
    names = (
        element("th", element("a", text(r.variant.title), href=anchor(found, r.variant.spec)), scope="col")
        for r in found.variants
    )
    rows = [
        element(
            "tr",
            element("th", text(metric.title), scope="row", title=metric.meaning),
            *(
                element("td", text(told(result, key)), element("small", text(told_spread(result, key))))
                for result in found.variants
            ),
        )
        for key, metric in METRICS.items()
        if any(key in result.figures for result in found.variants)
    ]
    table = element(
        "table",
        element("caption", "All figures by format", class_="unseen"),
        element("thead", element("tr", element("td"), *names)),
        element("tbody", *rows),
        class_="figures",
    )
    return section(
        "All figures",
        "Medians of all rounds, with the lowest and the highest below. Each format's name leads to its commands.",
        element("div", table, class_="scroll", role="region", aria_label="All figures", tabindex=0),
        id_="figures",
    )


def method(found: BenchReport) -> str:
    """What each figure means, and what the figures don't say."""
    settings = found.settings
    sentences = [
        f"Each format was written from the same rows, with shards of {with_unit(settings['shard_bytes'], 'bytes')} "
        "before compression, and read back; the content digests are equal, or there would be no report.",
        f"{settings['rounds']} rounds, formats in turn, every measurement in a fresh process; a rate takes "
        f"{settings['seconds']:g} s or a whole pass. Batches of {settings['batch_size']} samples.",
        "A compressed shard is decoded whole: larger shards make single rows slower and shuffling take more memory.",
        *found.notes,
    ]
    used = [metric for key, metric in METRICS.items() if any(key in result.figures for result in found.variants)]
    meanings = (element("dt", text(metric.title)) + element("dd", text(metric.meaning)) for metric in used)
    return section(
        "How it was measured",
        "",
        element("ul", *(element("li", text(sentence)) for sentence in sentences), class_="notes"),
        element("dl", *meanings),
    )


def commands(found: BenchReport) -> str:
    """The command that repeats it all, and those behind each figure."""
    parts = [_command("all", "All of it", [("", found.command)])]
    for result in found.variants:
        convert = _convert_command(found, result)
        told_commands = [("to write your corpus so", convert)]
        told_commands += [(f"measured: {name}", command) for name, command in result.commands.items()]
        parts.append(_command(result.variant.key, result.variant.title, told_commands))
    names = titles(found)
    for i, peer in enumerate(found.peers):
        parts.append(_command(f"peer-{i}", f"{peer.name} on {names[peer.variant]}", [("measured", peer.command)]))
    return section(
        "Commands",
        "The measurements run in the folder that --keep FOLDER leaves; the scripts of other libraries lie in "
        "tokenyard/bench, and run with --python.",
        *parts,
        id_="commands",
    )


def _convert_command(found: BenchReport, result: VariantResult) -> str:
    options = "".join(f" -o {name}={value}" for name, value in result.variant.options.items())
    source = found.sample.source if found.sample.source_format else "SRC"
    return f"tokenyard convert {source} DST --to {result.variant.format}{options}"


def _command(key: str, title: str, told_commands: Sequence[tuple[str, str]]) -> str:
    parts = [
        (element("p", text(label), class_="sub") if label else "") + code(command) for label, command in told_commands
    ]
    return element("div", element("h3", text(title)), *parts, class_="command", id=f"cmd-{key}")
