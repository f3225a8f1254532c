"""Conditions on the fields of a row, as `lang == en`, `score >= 0.5`, `source in [web, books]`, `url is not null`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from tokenyard.config.yaml_lines import OTHER_BASES
from tokenyard.errors import ConfigError
from tokenyard.rows import Column
from tokenyard.schema import FieldType

_FORM = re.compile(
    r"\s*([A-Za-z_][A-Za-z0-9_-]*)\s*(==|!=|<=|>=|<|>|\bnot\s+in\b|\bin\b|\bis\s+not\b|\bis\b)\s*(.*?)\s*"
)
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EXAMPLES = "lang == en, score >= 0.5, source in [web, books], url is not null"


@dataclass(frozen=True)
class Condition:
    """One condition: the field's name, the operator (``==`` ... ``in``, ``not in``, ``is``, ``is not``), a value."""

    text: str
    field: str
    operator: str
    value: Any

    def holds(self, column: Column) -> NDArray[np.bool_]:
        """bool[k]: whether it holds in each row. A null is nothing but null: no comparison holds, ``!=`` neither."""
        valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
        if self.operator in ("is", "is not"):
            return valid if self.operator == "is not" else ~valid
        values: Any = _texts(column) if column.type.is_binary else column.values
        with np.errstate(over="ignore"):  # a value that float16 can't hold is larger than all that it can
            if self.operator in ("in", "not in"):
                found = np.zeros(len(column), np.bool_)
                for value in self.value:
                    found |= np.asarray(values == value, np.bool_)
                return valid & (found if self.operator == "in" else ~found)
            return valid & np.asarray(_COMPARED[self.operator](values, self.value), np.bool_)


def parse_condition(text: str, fields: Mapping[str, FieldType]) -> Condition:
    """Read a condition on one of some fields. Raises ConfigError that says what is wrong with it.

    The value is read as YAML: a number, true or false, or text, in quotes where it would be read as something else.
    """
    match = _FORM.fullmatch(str(text))
    if match is None:
        raise ConfigError(f"where {text!r}: expected a field, an operator and a value, as in {_EXAMPLES}")
    name, sign, said = match[1], " ".join(match[2].split()), match[3]
    if name not in fields:
        raise ConfigError(
            f"where {text!r}: there is no field {name!r}; there are {', '.join(sorted(fields)) or 'none'}"
        )
    if (number := _other_base(said)) is not None:
        raise ConfigError(
            f"where {text!r:.200}: {number} is another number to YAML 1.1 than to 1.2; write it in plain digits, or in "
            "quotes as text"
        )
    try:
        value = _read(said)
    except (yaml.YAMLError, RecursionError):
        raise ConfigError(
            f'where {text!r:.200}: {said!r:.200} is no value; put text in quotes, as in {name} == "a: b"'
        ) from None
    type = fields[name]
    if sign in ("is", "is not"):
        if said != "null":
            raise ConfigError(f"where {text!r}: '{sign}' goes with null alone; use == or != for values")
        return Condition(text, name, sign, None)
    if type.is_list or type.name == "bytes":
        raise ConfigError(f"where {text!r}: field {name!r} is {type}, which can be compared with null alone")
    is_listed = sign in ("in", "not in")
    if is_listed and not isinstance(value, list):
        raise ConfigError(f"where {text!r}: '{sign}' takes a list, as in {name} {sign} [{said or 'a, b'}]")
    if type.name == "bool" and sign in ("<", "<=", ">", ">="):
        raise ConfigError(f"where {text!r}: field {name!r} is bool; use == or !=")
    values = [_checked(text, name, type, one) for one in (value if is_listed else [value])]
    return Condition(text, name, sign, values if is_listed else values[0])


def _other_base(said: str) -> str | None:
    """A number in a value that not all read alike, as 010; None where there is none, or what is no YAML."""
    with suppress(yaml.YAMLError, RecursionError):
        for token in yaml.scan(said):
            if isinstance(token, yaml.ScalarToken) and token.plain and OTHER_BASES.fullmatch(token.value):
                return str(token.value)
    return None


def _read(said: str) -> Any:
    """A value. Raises YAMLError also where YAML would take a part of it for something else, as ``#`` for a comment."""
    end = 0
    for token in yaml.scan(said):
        if isinstance(token, yaml.AnchorToken | yaml.DocumentStartToken | yaml.DocumentEndToken | yaml.DirectiveToken):
            raise yaml.YAMLError
        if isinstance(token, yaml.ScalarToken | yaml.FlowSequenceEndToken):
            end = token.end_mark.index
    if end < len(said) and said.find("#", end) >= 0:
        raise yaml.YAMLError
    return yaml.safe_load(said)


def _checked(text: str, name: str, type: FieldType, value: Any) -> Any:
    if not type.is_binary and type.name != "bool" and isinstance(value, str):
        with suppress(ValueError):
            value = float(value)  # 1e-3 is text to YAML
    if type.is_binary:
        fits, expected = isinstance(value, str), "text (in quotes, where YAML would read it as something else)"
    elif type.name == "bool":
        fits, expected = isinstance(value, bool), "true or false"
    else:
        fits, expected = isinstance(value, int | float) and not isinstance(value, bool), "a number"
    if not fits:
        raise ConfigError(f"where {text!r}: field {name!r} is {type}, so expected {expected}; found {value!r}")
    if value != value:
        raise ConfigError(
            f"where {text!r}: a NaN is neither equal to anything, nor less or more; '{name} >= -inf' holds for all "
            "that are none"
        )
    if type.name.startswith("float"):
        try:
            value = float(value)
        except OverflowError:
            raise ConfigError(f"where {text!r:.200}: no float is as large as that; use {name} < inf") from None
    return value


def _texts(column: Column) -> NDArray[np.object_]:
    """object[k]: the texts of a column; that of a null is empty."""
    assert column.offsets is not None
    data, ends = column.values.tobytes(), column.offsets.tolist()
    texts = np.empty(len(column), object)
    texts[:] = [data[a:b].decode() for a, b in pairwise(ends)]
    return texts
