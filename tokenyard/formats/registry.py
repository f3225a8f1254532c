"""Names of formats. Built-in ones load on first use; others come from the entry-point group ``tokenyard.formats``.

An entry point's value is a Format instance::

    [project.entry-points."tokenyard.formats"]
    arrowfile = "my_package:FORMAT"
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from tokenyard.errors import ConfigError, MissingDependencyError, UnknownFormatError
from tokenyard.formats.base import Format

GROUP = "tokenyard.formats"
#: In this order formats are asked whether a folder without a manifest is theirs.
_BUILT_IN = {
    "mds": "tokenyard.formats.mds:FORMAT",
    "npy": "tokenyard.formats.npy:FORMAT",
    "webdataset": "tokenyard.formats.webdataset:FORMAT",
    "parquet": "tokenyard.formats.parquet:FORMAT",
    "jsonl": "tokenyard.formats.jsonl:FORMAT",
    "csv": "tokenyard.formats.csv:FORMAT",
}
_registered: dict[str, Format] = {}


def register(format: Format) -> None:
    """Add a format for this process. Raises ConfigError when the name is taken."""
    if format.name in format_names():
        raise ConfigError(f"a format named {format.name!r} is registered already; names are unique, choose another")
    _registered[format.name] = format


def format_names() -> tuple[str, ...]:
    """All registered names, built-in ones first."""
    return (*_BUILT_IN, *sorted({*_plugins(), *_registered}))


def get_format(name: str) -> Format:
    """The format registered under ``name``.

    Raises UnknownFormatError that lists what exists, MissingDependencyError when a plugin's import fails.
    """
    if name in _registered:
        return _registered[name]
    # Looking for plugins reads a file of every package that is installed.
    target = _BUILT_IN.get(name) or _plugins().get(name)
    if target is None:
        close = difflib.get_close_matches(name.lower(), format_names(), 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UnknownFormatError(f"unknown format {name!r}; {hint}registered are {', '.join(format_names())}")
    return _load(name, target)


@cache
def _plugins() -> dict[str, str]:
    found: dict[str, str] = {}
    for point in entry_points(group=GROUP):
        if point.name in _BUILT_IN or point.name in found:
            raise ConfigError(
                f"format {point.name!r} is registered twice: by {point.value} and by "
                f"{found.get(point.name, 'tokenyard itself')}; uninstall one of the packages"
            )
        found[point.name] = point.value
    return found


@cache
def _load(name: str, target: str) -> Format:
    module, _, attribute = target.partition(":")
    try:
        loaded = import_module(module)
    except ImportError as e:
        raise MissingDependencyError(
            f"format {name!r} can't be loaded from {target}: {e}; install what it needs"
        ) from e
    try:
        format = getattr(loaded, attribute)
    except AttributeError as e:
        raise ConfigError(f"format {name!r}: its entry point {target} does not exist ({e})") from e
    if not isinstance(format, Format) or format.name != name:
        raise ConfigError(f"format {name!r}: its entry point {target} is not a Format of that name but {format!r}")
    return format
