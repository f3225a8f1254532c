"""JSON read as its standard says, which Python's parser is more lenient than."""

import json


def strict(text):
    """The value of a JSON text. Raises ValueError for NaN, Infinity and -Infinity, which other parsers refuse too."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(name):
    raise ValueError(f"{name} is no number of JSON")
