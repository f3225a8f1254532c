"""Whether all ids of a corpus are ids of the model: an id past its embedding ends the run on the GPU."""

from __future__ import annotations

from tokenyard.errors import SchemaError
from tokenyard.preflight.contents import Contents
from tokenyard.preflight.model import ModelFacts
from tokenyard.preflight.report import Line, Status, worst

#: Models round their vocabulary up, to multiples of 64 to 1,024, and keep some ids free: what they may have more.
_ROUNDED, _ROUNDED_SHARE = 1024, 1.05

Problem = tuple[Status, str, str]


def vocabulary_line(contents: Contents, facts: ModelFacts, source: str | None) -> Line:
    """Hold what was read to the schema, to the dtype and to the model."""
    schema, largest = contents.corpus.schema, contents.largest_id
    problems = [*_outside(contents), *_of_schema(contents), *_of_model(contents, facts)]
    told = "no token" if largest is None else f"ids up to {largest:,}"
    size = f"vocab_size {schema.vocab_size:,}" if schema.vocab_size is not None else "no vocab_size in its schema"
    model = (
        f"the model has {facts.vocab_size:,}" if facts.vocab_size is not None else "no model to compare with (--model)"
    )
    otherwise = f"{told} in {contents.told}; {schema.token_dtype}, {size}; {model}"
    return worst("vocabulary", problems, otherwise, source=source)


def _outside(contents: Contents) -> list[Problem]:
    if not contents.ids.beyond:
        return []
    return [
        (
            "fail",
            f"{contents.ids.beyond:,} ids are negative or larger than any vocabulary's",
            "they were read with a wrong dtype, or aren't token ids: check token_dtype and tokens",
        )
    ]


def _of_schema(contents: Contents) -> list[Problem]:
    schema, largest = contents.corpus.schema, contents.largest_id
    found: list[Problem] = []
    if schema.vocab_size is None:
        return found
    if largest is not None and largest >= schema.vocab_size:
        found.append(
            (
                "fail",
                f"id {largest:,} is in the corpus, whose schema says vocab_size {schema.vocab_size:,}",
                f"the ids are another tokenizer's, or the schema is wrong: tokenyard verify {contents.corpus.path}",
            )
        )
    try:
        schema.check_holds(schema.vocab_size - 1)
    except SchemaError as e:
        found.append(("warn", str(e), ""))
    return found


def _of_model(contents: Contents, facts: ModelFacts) -> list[Problem]:
    schema, largest, size = contents.corpus.schema, contents.largest_id, facts.vocab_size
    if size is None:
        return []
    named = {"eos_token_id": schema.eos_token_id, "bos_token_id": schema.bos_token_id}
    too_large = {name: number for name, number in named.items() if number is not None and number >= size}
    way_out = "name the model that this corpus was tokenized for, enlarge its embedding, or tokenize anew"
    if largest is not None and largest >= size:
        return [
            (
                "fail",
                f"id {largest:,} is in the corpus, and the model has ids 0 .. {size - 1:,}: its embedding has no row",
                way_out,
            )
        ]
    if too_large:
        name, number = next(iter(too_large.items()))
        return [("fail", f"{name} is {number:,}, and the model has ids 0 .. {size - 1:,}", way_out)]
    known = schema.vocab_size
    if known is not None and known > size:
        return [
            (
                "warn",
                f"the tokenizer may give ids up to {known - 1:,}, and the model has ids 0 .. {size - 1:,}; none past "
                "them was read",
                way_out,
            )
        ]
    if known is not None and size > max(known + _ROUNDED, known * _ROUNDED_SHARE):
        return [
            (
                "warn",
                f"the model has {size - known:,} ids more than the tokenizer, which no rounding explains",
                "name the model that this corpus was tokenized for",
            )
        ]
    return []
