"""What is compared: a format with the options of its writer, as ``mds:zstd`` names them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tokenyard.errors import ConfigError
from tokenyard.formats.registry import get_format

#: What is measured unless told otherwise: each format raw, and with the codecs that are worth it.
DEFAULT_VARIANTS = (
    "npy",
    "mds",
    "mds:zstd",
    "webdataset",
    "webdataset:gz",
    "parquet",
    "parquet:lz4",
    "jsonl",
    "jsonl:zstd",
    "csv",
)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A format and its writer's options. ``spec`` is what names it on the command line, as ``parquet:lz4``."""

    spec: str
    format: str
    options: Mapping[str, Any]
    codec: str | None

    @property
    def key(self) -> str:
        """A name for folders and links: letters, digits and dashes."""
        return re.sub(r"[^a-z0-9]+", "-", self.spec.lower()).strip("-")

    @property
    def title(self) -> str:
        """A name for people, with the codec that is used also where it is the format's own choice."""
        others = [f"{k}={v}" for k, v in self.options.items() if k != "compression"]
        return " ".join([self.format, *([self.codec] if self.codec else []), *others])


def parse_variants(specs: Sequence[str] | None = None) -> tuple[Variant, ...]:
    """The variants that ``specs`` name, each ``format[:codec][:option=value ...]``, or the usual ones.

    Raises ConfigError for an option that the format doesn't have, and for two that are the same; UnknownFormatError.
    """
    variants = tuple(_parse(spec) for spec in specs or DEFAULT_VARIANTS)
    seen: dict[tuple[str, str], str] = {}
    for variant in variants:
        written = variant.format, repr(get_format(variant.format).options(variant.options))
        if written in seen:
            raise ConfigError(f"formats: {variant.spec!r} is the same as {seen[written]!r}; leave one of them out")
        seen[written] = variant.spec
    return variants


def _parse(spec: str) -> Variant:
    name, *rest = spec.strip().split(":")
    format = get_format(name)
    options: dict[str, Any] = {}
    for item in rest:
        key, equals, value = item.partition("=")
        if not equals:
            key, value = "compression", item
        if not key or not value or key in options:
            raise ConfigError(f"formats: expected format[:codec][:option=value], as parquet:lz4; found {spec!r}")
        options[key.replace("-", "_")] = yaml.safe_load(value)
    if "shard_bytes" in options:
        raise ConfigError(f"formats: {spec!r} names shard_bytes, which is one for all formats; use --shard-bytes")
    codec = getattr(format.options(options), "compression", "none")
    return Variant(spec=spec.strip(), format=name, options=options, codec=None if codec == "none" else str(codec))
