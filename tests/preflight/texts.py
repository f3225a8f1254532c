"""Corpora of real text, tokenized by real tokenizers, and such with marks that are wrong."""

import inspect
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tokenyard
from tokenyard.corpus import Corpus, CorpusWriter, open_corpus
from tokenyard.manifest import Layout
from tokenyard.schema import Schema

BOS, EOS = 1, 2


def tokenized(folder: Path, tokenizer: Path, **options) -> Path:
    """Functions and docstrings of the standard library as documents."""
    texts = inspect.getsource(textwrap).split("\n\n\n") + inspect.getsource(json).split("\n\n")
    source = folder / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenyard.tokenize([str(source)], folder / "corpus", tokenizer=tokenizer, **options)
    return folder / "corpus"


def marked(path: Path, documents: Sequence[Sequence[int]], *, layout: Layout | None = None, **schema) -> Corpus:
    """Rows of ids, of which 1 is BOS and 2 is EOS."""
    known = {"token_dtype": "uint16", "vocab_size": 1000, "bos_token_id": BOS, "eos_token_id": EOS, **schema}
    with CorpusWriter(path, format="npy", schema=Schema(**known), layout=layout) as writer:
        for document in documents:
            writer.write(np.array(document, known["token_dtype"]))
    return open_corpus(path)


def documents(num: int, begin: Sequence[int] = (BOS,), end: Sequence[int] = (EOS,)) -> list[list[int]]:
    """Documents of some lengths, with marks around them."""
    rng = np.random.default_rng(num)
    return [[*begin, *rng.integers(10, 900, int(length)).tolist(), *end] for length in rng.integers(3, 20, num)]
