"""Versions of what decides on the bytes that a job writes."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

ENCODERS = ("tokenyard", "numpy", "pyarrow", "zstandard")


def installed(packages: Iterable[str]) -> dict[str, str | None]:
    """The version of each package here; None for one that is not installed."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found
