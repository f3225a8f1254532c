"""Documents out of text files: planned into splits, read in order, with every bad record in its place."""

from tokenyard.converters.text.document import BadKind, BadRecord, Document, FieldValue, Place
from tokenyard.converters.text.inputs import place_of
from tokenyard.converters.text.lines import place_in_file
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.outside import check_outside
from tokenyard.converters.text.plan import Note, TextPlan, plan_texts
from tokenyard.converters.text.read import read_split
from tokenyard.converters.text.remote import size_of
from tokenyard.converters.text.split import Split, group_splits

__all__ = [
    "BadKind",
    "BadRecord",
    "Document",
    "FieldValue",
    "Note",
    "Place",
    "Split",
    "TextOptions",
    "TextPlan",
    "check_outside",
    "group_splits",
    "place_in_file",
    "place_of",
    "plan_texts",
    "read_split",
    "size_of",
]
