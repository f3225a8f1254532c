"""Corpora and what is found in them, for tests of the page: packed rows, documents, masks and hostile texts."""

from tests.corpora import random_rows, write_corpus
from tests.runs import packed_rows
from tokenyard.corpus import Corpus
from tokenyard.looking.contents import LookSettings, look_into
from tokenyard.looking.page import corpus_page

#: What must not act: on a terminal, on a page, in a line of text.
HOSTILE = "\x1b[31mred\x07</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202eabc"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


def hostile(path, format="npy") -> Corpus:
    """Two rows with a mask, and a text that must not act in a field."""
    return write_corpus(
        path,
        [[1, 2, 3, 9], [4, 9]],
        format=format,
        eos_token_id=9,
        loss_mask=("uint8[]", [[0, 0, 1, 1], [1, 1]]),
        source=("string", [HOSTILE, HOSTILE]),
    )


def made_page(folder, *, two=False, name="data/packed", **options):
    """The page of a packed corpus, or of it beside documents, and the corpora."""
    corpora = [packed_rows(folder / "packed", "npy", pad=True)]
    if two:
        corpora.append(write_corpus(folder / "docs", random_rows(2, 60, 300), format="parquet", shard_bytes=3000))
    found = [look_into(corpus, name, LookSettings(), None) for corpus in corpora]
    return corpus_page(found, command=f"tokenyard report {name}", **options), found
