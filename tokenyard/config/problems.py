"""What is wrong with settings, told by the full path of each key, its line, and the nearest key that exists."""

import difflib
from collections.abc import Container, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tokenyard.config.other_names import OTHER_NAMES
from tokenyard.config.yaml_lines import KeyPath

Lines = Mapping[KeyPath, int]

#: What pydantic calls types, and what YAML's readers do.
_WORDS = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "text",
    "a valid list": "a list",
    "a valid dictionary": "keys and values",
}


def describe(error: ValidationError, model: type[BaseModel], data: Any, lines: Lines) -> str:
    """Return all problems, one a line where there are several, in the order of the file."""
    found: dict[KeyPath, list[str]] = {}
    for problem in error.errors(include_url=False):
        path = _real_path(problem["loc"], data)
        found.setdefault(path, []).append(_message(problem, path, model))
    # Where one of several types was nearly met, what it lacked says it all.
    found = {path: said for path, said in found.items() if not any(q[: len(path)] == path != q for q in found)}
    told = [(lines.get(_nearest(path, lines), 0), _label(path, lines) + _joined(found[path])) for path in found]
    texts = [text for _, text in sorted(told, key=lambda entry: entry[0])]
    return texts[0] if len(texts) == 1 else f"{len(texts)} problems\n" + "\n".join(f"  {text}" for text in texts)


def known_paths(model: type[BaseModel]) -> dict[KeyPath, type[BaseModel] | None]:
    """Return every key of a model, sections included, with the model of a section and None for others.

    Keys of sections in a list are without the number of the item.
    """
    found: dict[KeyPath, type[BaseModel] | None] = {}
    for name, field in model.model_fields.items():
        section = section_of(field.annotation) or _section_in_list(field.annotation)
        found[(name,)] = section
        if section:
            found.update({(name, *path): value for path, value in known_paths(section).items()})
    return found


def section_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation names, alone or with None."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _lists(model: type[BaseModel], above: KeyPath = ()) -> list[KeyPath]:
    """Return the paths of the keys that hold a list of sections."""
    found: list[KeyPath] = []
    for name, field in model.model_fields.items():
        if _section_in_list(field.annotation):
            found.append((*above, name))
        elif inner := section_of(field.annotation):
            found += _lists(inner, (*above, name))
    return found


def _section_in_list(annotation: Any) -> type[BaseModel] | None:
    """Return the model of the items of a list that an annotation names, alone or with None."""
    for candidate in (annotation, *get_args(annotation)):
        if get_origin(candidate) is list:
            return section_of(candidate)
    return None


def _message(problem: Any, path: KeyPath, model: type[BaseModel]) -> str:
    kind, text = problem["type"], problem["msg"]
    if kind == "extra_forbidden":
        return "unknown key; " + _suggestion(path, model)
    if kind == "missing":
        return "this key is needed"
    if kind == "value_error":
        return str(text.removeprefix("Value error, "))
    if kind in ("model_type", "model_attributes_type"):
        text = "expected keys and values"
    expected = text.replace("Input should be ", "expected ")
    for theirs, ours in _WORDS.items():
        expected = expected.replace(theirs, ours)
    shown = repr(problem["input"])
    return f"{expected}, found {shown if len(shown) <= 60 else shown[:57] + '...'}"


def _joined(messages: list[str]) -> str:
    """One message for a key of which each of several types was refused."""
    if len(messages) == 1:
        return messages[0]
    found = messages[0].rpartition(", found ")[2]
    expected = [m.rpartition(", found ")[0].removeprefix("expected ") or m for m in messages]
    return f"expected {' or '.join(dict.fromkeys(expected))}, found {found}"


def _suggestion(path: KeyPath, model: type[BaseModel]) -> str:
    known = known_paths(model)
    name = str(path[-1])
    section = tuple(part for part in path[:-1] if isinstance(part, str))
    beside = {str(p[-1]): p for p in known if p[:-1] == section}
    if (theirs := _of_another_loader(name, beside, known)) is not None:
        return theirs
    if close := difflib.get_close_matches(name, beside, 1):
        return f"did you mean {_text(beside[close[0]])}?"
    # Items of lists take keys of other sections too, which is not where to look first.
    known = {p: section_model for p, section_model in known.items() if not any(p[:-1] == q for q in _lists(model))}
    if elsewhere := [p for p in known if p[-1] == name]:
        return f"did you mean {' or '.join(map(_text, elsewhere))}?"
    if parts := [p for p in known if len(name) > 3 and (name in str(p[-1]) or str(p[-1]) in name)]:
        return f"did you mean {' or '.join(map(_text, parts))}?"
    everywhere = {str(p[-1]): p for p in known}
    if close := difflib.get_close_matches(name, everywhere, 1, 0.8):
        return f"did you mean {_text(everywhere[close[0]])}?"
    return f"known here are {', '.join(beside) or 'none'}"


def _of_another_loader(name: str, beside: Mapping[str, KeyPath], known: Container[KeyPath]) -> str | None:
    """Return what to say of a name that another loader has; a key beside it goes before the same key elsewhere."""
    key, more = OTHER_NAMES.get(name, ("", ""))
    path = beside.get(key.rpartition(".")[2], tuple(key.split(".")))
    if path not in known:
        return None
    return f"did you mean {_text(path)}?{more}"


def _real_path(location: tuple[Any, ...], data: Any) -> KeyPath:
    """Leave out what pydantic adds to say which type of a union it tried; a missing or unknown key stays."""
    path: list[str | int] = []
    for part in location:
        if isinstance(data, Mapping):
            path.append(part)
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int):
            path.append(part)
            data = data[part]
    return tuple(path)


def _nearest(path: KeyPath, lines: Lines) -> KeyPath:
    while path and path not in lines:
        path = path[:-1]
    return path


def _label(path: KeyPath, lines: Lines) -> str:
    line = lines.get(_nearest(path, lines))
    return (_text(path) or "settings") + (f" (line {line})" if line else "") + ": "


def _text(path: KeyPath) -> str:
    return ".".join(map(str, path))
