"""Corpora: opening, reading, gathering and writing, above all formats."""

from tokenyard.corpus.claim import DONE_FOLDER, JOB_FOLDER
from tokenyard.corpus.corpus import Corpus
from tokenyard.corpus.destination import destination, publish_manifest
from tokenyard.corpus.opening import open_corpus
from tokenyard.corpus.places import with_files
from tokenyard.corpus.writer import CorpusWriter, ShardRoller

__all__ = [
    "DONE_FOLDER",
    "JOB_FOLDER",
    "Corpus",
    "CorpusWriter",
    "ShardRoller",
    "destination",
    "open_corpus",
    "publish_manifest",
    "with_files",
]
