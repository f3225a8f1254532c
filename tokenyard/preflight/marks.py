"""Whether documents begin and end with the marks that they should: BOS and EOS, once."""

from __future__ import annotations

from tokenyard.corpus import Corpus
from tokenyard.display.quantities import percent
from tokenyard.preflight.contents import Contents
from tokenyard.preflight.documents import MarkCounts, Marks, may_be_rests
from tokenyard.preflight.model import ModelFacts
from tokenyard.preflight.provenance import Tokenized, tokenized
from tokenyard.preflight.report import Line, Status, passed, worst

Problem = tuple[Status, str, str]

_TWO_BOS = "both the tokenizer and the tokenizing added one: tokenize anew with add_bos: false"
_BY_EOS = "documents are told by EOS, so that all end with it"
_ANEW = "tokenize all of it alike, with add_bos and add_eos as they are meant"


def marks_of(corpus: Corpus, facts: ModelFacts, *, bos: int | None = None, eos: int | None = None) -> Marks:
    """The marks of a corpus: as its schema says, else as the tokenizer does (``bos``, ``eos``), else as the model."""
    schema = corpus.schema
    of_model = facts.eos_ids[0] if facts.eos_ids else None
    return Marks(
        bos=next((n for n in (schema.bos_token_id, bos, facts.bos_id) if n is not None), None),
        eos=next((n for n in (schema.eos_token_id, eos, of_model) if n is not None), None),
    )


def marks_line(contents: Contents, *, needs_eos: bool, source: str | None) -> Line:
    """Say how many documents begin and end with their marks.

    ``needs_eos``: whether the run finds documents by EOS alone (``data.sample.documents: eos``).
    """
    counts = contents.marks
    if counts is None:
        said = "nothing tells where documents begin"
        known = contents.ids
        problems = _of_need(contents) if needs_eos else []
        return worst("documents", problems, f"{said}; {known.num_rows:,} rows were looked at", source=source)
    marks, asked = counts.marks, tokenized(contents.corpus)
    if marks.bos is None and marks.eos is None and not needs_eos:
        return passed("documents", "neither the corpus nor a tokenizer or model names BOS or EOS", source=source)
    rests = may_be_rests(contents.corpus)
    problems = [*_of_bos(counts, asked, rests), *_of_eos(counts, asked)]
    if needs_eos:
        problems += _of_need(contents)
    told = [
        _told(
            "documents, or rests of long ones," if rests else "documents",
            "begin with BOS",
            marks.bos,
            counts.with_bos,
            counts.begun,
        ),
        _told("documents", "end with EOS", marks.eos, counts.with_eos, counts.ended),
    ]
    cut = "rows cut documents, so that neither their begins nor their ends were seen"
    otherwise = ", ".join(part for part in told if part) or (_BY_EOS if counts.begun else cut)
    return worst("documents", problems, f"{otherwise} ({contents.told})", source=source)


def _told(which: str, what: str, mark: int | None, found: int, of: int) -> str:
    return "" if mark is None or not of else f"{percent(found / of)} of {of:,} {which} {what} ({mark})"


def _of_need(contents: Contents) -> list[Problem]:
    """What is wrong where documents are found by EOS alone."""
    eos = contents.named.eos
    if eos is None:
        return [_no_eos("fail", "no EOS id is known")]
    if contents.ids.of(eos):
        return []
    if contents.marks is None:  # pieces of very long rows were read, which may have none of the few that there are
        return [_no_eos("warn", f"no EOS ({eos}) was found in {contents.told}")]
    return [_no_eos("fail", f"no EOS ({eos}) was found")]


def _no_eos(status: Status, found: str) -> Problem:
    return (
        status,
        f"data.sample.documents is eos, and {found}: a whole batch would be one document",
        "set data.sample.eos_token_id to the id that ends documents, or documents to rows or lengths",
    )


def _of_bos(counts: MarkCounts, asked: Tokenized, may_be_rests: bool) -> list[Problem]:
    bos, begun, found = counts.marks.bos, counts.begun, counts.with_bos
    problems: list[Problem] = []
    if bos is None or not begun:
        return problems
    if counts.doubled_bos:
        status: Status = "fail" if 2 * counts.doubled_bos >= found else "warn"
        problems.append(
            (status, f"{counts.doubled_bos:,} of {begun:,} documents begin with BOS ({bos}) twice", _TWO_BOS)
        )
    if asked.add_bos and found < begun and not may_be_rests:
        problems.append(("fail", f"{begun - found:,} documents lack BOS ({bos}), which add_bos asked for", _ANEW))
    elif asked.add_bos is False and found and bos != counts.marks.eos:
        problems.append(("warn", f"{found:,} documents begin with BOS ({bos}), though add_bos was false", _ANEW))
    elif asked.add_bos is None and 0 < found < begun and not may_be_rests:
        problems.append(("warn", f"{found:,} of {begun:,} documents begin with BOS ({bos}), the others don't", _ANEW))
    if counts.inner_bos and bos != counts.marks.eos:
        problems.append(("warn", f"BOS ({bos}) is inside of documents, {counts.inner_bos:,} times", _inside("BOS")))
    return problems


def _of_eos(counts: MarkCounts, asked: Tokenized) -> list[Problem]:
    eos, ended, found = counts.marks.eos, counts.ended, counts.with_eos
    problems: list[Problem] = []
    if eos is None or not ended:
        return problems
    if asked.add_eos and found < ended:
        problems.append(("fail", f"{ended - found:,} documents lack EOS ({eos}), which add_eos asked for", _ANEW))
    elif asked.add_eos is None and not found:
        problems.append(
            ("warn", f"no document ends with EOS ({eos}): a model never learns to end one", "tokenize with add_eos")
        )
    elif asked.add_eos is None and found < ended:
        problems.append(("warn", f"{found:,} of {ended:,} documents end with EOS ({eos}), the others don't", _ANEW))
    if counts.doubled_eos:
        problems.append(("warn", f"{counts.doubled_eos:,} of {ended:,} documents end with EOS ({eos}) twice", _ANEW))
    if counts.inner_eos and counts.marks.bos != eos:
        problems.append(("warn", f"EOS ({eos}) is inside of documents, {counts.inner_eos:,} times", _inside("EOS")))
    return problems


def _inside(mark: str) -> str:
    return f"texts held the name of {mark}: special_text: plain keeps it text"
