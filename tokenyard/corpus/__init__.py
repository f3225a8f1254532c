"""Corpora: opening, reading, gathering and writing, above all formats."""

from tokenyard.corpus.corpus import Corpus
from tokenyard.corpus.destination import destination, publish_manifest
from tokenyard.corpus.opening import open_corpus
from tokenyard.corpus.writer import CorpusWriter, ShardRoller

__all__ = ["Corpus", "CorpusWriter", "ShardRoller", "destination", "open_corpus", "publish_manifest"]
