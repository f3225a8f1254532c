"""A corpus that is made among the texts it is made of would be read as one of them when its job is run again."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenyard.corpus.paths import local_path
from tokenyard.errors import ConfigError


def check_outside(
    inputs: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    paths: Iterable[str],
    dst: str | os.PathLike[str],
) -> None:
    """Raise ConfigError where ``dst`` lies in a folder of inputs, or one of ``paths``, the files to be read, in it."""
    if "://" in os.fspath(dst) and not os.fspath(dst).startswith("file://"):
        return  # texts are local files
    place = Path(os.path.realpath(local_path(dst)))
    named = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
    for folder in (Path(os.path.realpath(name)) for name in named if os.path.isdir(name)):
        if place.is_relative_to(folder) and not _is_hidden(place.relative_to(folder)):
            raise ConfigError(
                f"{dst}: the destination lies in {folder}, whose files are the inputs, so what is written would be an "
                "input too when the job is run again; choose a destination outside of it"
            )
    for path in paths:
        if Path(os.path.realpath(path)).is_relative_to(place):
            raise ConfigError(
                f"{path}: an input that lies in the destination, {dst}; name the inputs so that they leave it out, or "
                "choose another destination"
            )


def _is_hidden(below: Path) -> bool:
    """Whether a folder of inputs passes over what has this path in it."""
    return any(part.startswith(".") for part in below.parts)
