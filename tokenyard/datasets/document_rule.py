"""How a dataset tells one document from the next: by rows, by the lengths that packed rows carry, or by an EOS id."""

from dataclasses import dataclass
from typing import Literal, get_args

from tokenyard.corpus import Corpus
from tokenyard.errors import ConfigError

DocumentsBy = Literal["auto", "rows", "lengths", "eos"]


@dataclass(frozen=True, kw_only=True)
class DocumentRule:
    """What begins a document.

    Attributes:
        by: `rows` (each row is one), `lengths` (those that packed rows carry), `eos` (the token after each EOS id), or
            `auto`: rows, but lengths where rows carry them, and an error where a row may hold several and nothing says
            where they begin.
        eos_token_id: with `eos` the id that documents end with, else None.
    """

    by: DocumentsBy = "auto"
    eos_token_id: int | None = None


#: Rows, but lengths where rows carry them.
AUTO = DocumentRule()


def document_rule(corpus: Corpus, by: DocumentsBy, eos_token_id: int | None, *, used: bool) -> DocumentRule:
    """Return the rule of a dataset; the EOS id is that of the corpus unless it is given.

    Args:
        corpus: where the documents are.
        by: one of `DocumentsBy`.
        eos_token_id: the id that documents end with; only with `eos`.
        used: whether the dataset tells documents apart at all.

    Raises:
        ConfigError: an option is unknown, does nothing, or is missing.
    """
    if by not in get_args(DocumentsBy):
        raise ConfigError(f"documents: expected one of {', '.join(get_args(DocumentsBy))}, found {by!r}")
    if by != "auto" and not used:
        raise ConfigError(
            f"documents is {by!r}, but nothing asks where documents begin; set boundaries or mask_boundaries, or leave "
            "documents out"
        )
    if by != "eos":
        if eos_token_id is not None:
            raise ConfigError(
                f"eos_token_id is {eos_token_id!r}, but documents is {by!r}; choose documents 'eos', or leave "
                "eos_token_id out"
            )
        return DocumentRule(by=by)
    return DocumentRule(by="eos", eos_token_id=_eos_token_id(corpus, eos_token_id))


def _eos_token_id(corpus: Corpus, given: int | None) -> int:
    schema, where = corpus.schema, corpus.path
    found = schema.eos_token_id if given is None else given
    if found is None:
        raise ConfigError(f"documents is 'eos', but {where} doesn't say with which id documents end; give eos_token_id")
    if type(found) is not int or found < 0:
        raise ConfigError(f"eos_token_id: expected a whole number from 0 on, found {found!r}")
    if schema.vocab_size is not None and found >= schema.vocab_size:
        raise ConfigError(
            f"eos_token_id: expected an id below {schema.vocab_size}, the vocabulary of {where}, found {found}"
        )
    return found
