"""tokenyard: keep tokens in any storage format, and train from any of them with the same batches."""

from tokenyard.corpus import Corpus, CorpusWriter, open_corpus
from tokenyard.errors import TokenyardError
from tokenyard.schema import Schema

__all__ = ["Corpus", "CorpusWriter", "Schema", "TokenyardError", "open_corpus"]
