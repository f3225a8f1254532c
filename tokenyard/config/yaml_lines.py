"""YAML read safely, with the line of every key: no objects, no duplicate keys, no bombs of aliases."""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from tokenyard.errors import ConfigError, StorageError

#: A place in the settings: keys, and numbers in lists.
KeyPath = tuple[str | int, ...]

_MAX_BYTES = 1 << 20
#: Aliases let a few lines stand for billions of values; settings have some dozens.
_MAX_NODES = 10_000
_MAX_DEPTH = 50


def read_yaml(file: Path) -> tuple[Any, dict[KeyPath, int]]:
    """Return what a file says, as plain values, and the line of each key and list item, from 1.

    Raises:
        StorageError: the file can't be read.
        ConfigError: it is not YAML, repeats a key, or is no size for settings.
    """
    try:
        with open(file, "rb") as f:
            data = f.read(_MAX_BYTES + 1)
    except OSError as e:
        raise StorageError(f"{file}: can't read the settings: {e.strerror}") from e
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{file}: more than {_MAX_BYTES} bytes are no settings; is it the right file?")
    try:
        loader = _Loader(data)
        try:
            node = loader.get_single_node()
            return _Reader(str(file), loader).read(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError) as e:
        if isinstance(e, ConfigError):
            raise
        mark = getattr(e, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{file}{line}: not valid YAML: {getattr(e, 'problem', None) or e}") from None
    except RecursionError:
        raise ConfigError(f"{file}: nested too deep for settings") from None


class _Loader(yaml.SafeLoader):
    """Plain values only; 1e-3 is a number, as in every other language and in YAML 1.2."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+"), list("-+0123456789")
)


#: Numbers that YAML 1.1 and 1.2 read differently: octal by a zero in front, and base 60 by colons.
OTHER_BASES = re.compile(r"[-+]?0[0-9_]+|[-+]?[0-9_]+(:[0-5]?[0-9])+(\.[0-9_]*)?")


class _Reader:
    def __init__(self, file: str, loader: yaml.SafeLoader) -> None:
        self._file = file
        self._loader = loader
        self._lines: dict[KeyPath, int] = {}
        self._problems: list[str] = []
        self._num_nodes = 0

    def read(self, node: yaml.Node | None) -> tuple[Any, dict[KeyPath, int]]:
        value = None if node is None else self._value(node, ())
        if self._problems:
            raise ConfigError(f"{self._file}: " + "; ".join(self._problems))
        return value, self._lines

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._num_nodes += 1
        if self._num_nodes > _MAX_NODES or len(path) > _MAX_DEPTH:
            raise ConfigError(
                f"{self._file}: more than {_MAX_NODES} values or {_MAX_DEPTH} levels, aliases counted; no settings "
                "need so many"
            )
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self._value(item, (*path, i)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.CollectionNode):
            raise ConfigError(
                f"{self._file} (line {node.start_mark.line + 1}): tag {node.tag!r} is nothing for settings; "
                "leave it out"
            )
        value = self._loader.construct_object(node)
        if type(value) in (int, float) and OTHER_BASES.fullmatch(node.value):
            self._problems.append(
                f"{'.'.join(map(str, path))} (line {node.start_mark.line + 1}): {node.value} is read as {value} by the "
                "rules of YAML 1.1 and as something else by those of 1.2; write the number you mean in plain digits"
            )
        return value

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key: Hashable = self._loader.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            where = ".".join(map(str, (*path, key)))
            if not isinstance(key, str):
                self._problems.append(f"{where} (line {line}): keys are text, this one is {type(key).__name__}")
                continue
            if key in found:
                first = self._lines[(*path, key)]
                self._problems.append(f"{where} (line {line}): given twice, first in line {first}; keep one")
            self._lines[(*path, key)] = line
            found[key] = self._value(value_node, (*path, key))
        return found
