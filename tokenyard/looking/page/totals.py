"""What a corpus is, where it comes from, and how two of them differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenyard.display.html import element, text
from tokenyard.display.parts import code, facts, section, table
from tokenyard.display.quantities import digits, with_unit
from tokenyard.display.visible import visible
from tokenyard.looking.contents import Contents
from tokenyard.looking.difference import FirstDifference
from tokenyard.looking.page.sides import sides


def totals_section(found: Sequence[Contents]) -> str:
    """Totals and schema; of two corpora they stand in the difference."""
    if len(found) > 1:
        return ""
    return section("What it is", "", facts(_totals(found[0])), id_="totals")


def difference_section(found: Sequence[Contents], difference: FirstDifference | None) -> str:
    """What two corpora have in common, and what not."""
    told = [_totals(c) for c in found]
    names = list(dict.fromkeys(name for totals in told for name in totals))
    rows = []
    for name in names:
        a, b = (str(totals.get(name) or "–") for totals in told)
        same = element("span", "same", class_="mark-same") if a == b else element("span", "differs", class_="mark-not")
        rows.append((text(name), element("span", text(a)), element("span", text(b)), same))
    if difference is None:
        said = "They don't have the same number of rows, so rows were not compared one by one."
    else:
        said = difference.told
    return section(
        "Side by side",
        "",
        element("p", text(said), class_="finding"),
        table("Totals", ("", *(visible(c.name) for c in found), ""), rows, class_="totals"),
        id_="difference",
    )


def provenance_section(found: Sequence[Contents]) -> str:
    """What the manifests say of their making."""
    return section(
        "Where it comes from",
        "What the manifest says of the jobs that made it, from the last one to the first.",
        sides(found, lambda c: _provenance(c.corpus.manifest.provenance)),
        id_="provenance",
    )


def _totals(found: Contents) -> dict[str, str]:
    corpus, manifest = found.corpus, found.corpus.manifest
    schema, layout = corpus.schema, corpus.layout
    size = float(found.shard_bytes.sum())
    fields = ", ".join(f"{name}: {type}" for name, type in schema.fields.items())
    packed = f"packed, {layout.seq_len:,} tokens a row" if layout.seq_len is not None else layout.kind
    told: Mapping[str, Any] = {
        "format": corpus.format,
        "rows": f"{len(corpus):,}",
        "tokens": f"{corpus.num_tokens:,}",
        "bytes": f"{with_unit(size, 'bytes')}, {digits(size / max(1, corpus.num_tokens))} a token",
        "shards": f"{len(manifest.shards):,}",
        "layout": packed if layout.kind == "packed" else layout.kind,
        "token dtype": schema.token_dtype,
        "vocabulary": None if schema.vocab_size is None else f"{schema.vocab_size:,}",
        "tokenizer": schema.tokenizer,
        "EOS id": schema.eos_token_id,
        "BOS id": schema.bos_token_id,
        "padding id": layout.pad_token_id,
        "fields": fields,
        "digest": corpus.digest or f"not known; {corpus.structural_id}",
    }
    digests = {} if manifest.digests is None else manifest.digests.fields
    told = {**told, **{f"digest of {name}": digest for name, digest in digests.items()}}
    return {name: visible(str(value)) for name, value in told.items() if value not in (None, "")}


def _provenance(said: Mapping[str, Any]) -> str:
    if not said:
        return element("p", "It says nothing: tokenyard didn't make it.", class_="sub")
    return code(json.dumps(said, indent=2, ensure_ascii=False, default=str))
