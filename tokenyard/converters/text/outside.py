"""A corpus that is made among the texts it is made of would be read as one of them when its job is run again."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import unquote

from tokenyard.converters.text.inputs import here_or_url
from tokenyard.corpus.paths import local_path
from tokenyard.errors import ConfigError
from tokenyard.storage import is_url


def check_outside(
    inputs: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    paths: Iterable[str],
    dst: str | os.PathLike[str],
) -> None:
    """Raise ConfigError where ``dst`` lies in a folder of inputs, or one of ``paths``, the files to be read, in it."""
    place = _place(dst)
    for name in map(here_or_url, [inputs] if isinstance(inputs, str | os.PathLike) else inputs):
        if not is_url(name) and not os.path.isdir(name):
            continue
        folder = _place(name)
        if place.is_relative_to(folder) and not _is_hidden(place.relative_to(folder)):
            raise ConfigError(
                f"{dst}: the destination lies in {name}, whose files are the inputs, so what is written would be an "
                "input too when the job is run again; choose a destination outside of it"
            )
    for path in paths:
        if _place(path).is_relative_to(place):
            raise ConfigError(
                f"{path}: an input that lies in the destination, {dst}; name the inputs so that they leave it out, or "
                "choose another destination"
            )


def _place(path: str | os.PathLike[str]) -> PurePath:
    """Where a path leads in the end, or the parts of a URL, which lies below no folder of this machine."""
    name = here_or_url(path)
    if not is_url(name):
        return Path(os.path.realpath(local_path(name)))
    scheme, _, rest = name.partition("://")
    return PurePosixPath(f"{scheme.lower()}:", unquote(rest))


def _is_hidden(below: PurePath) -> bool:
    """Whether a folder of inputs passes over what has this path in it."""
    return any(part.startswith(".") for part in below.parts)
