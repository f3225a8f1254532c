"""A Sphinx extension: the reference of settings and commands, made out of the code that takes them."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer.main
import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from pydantic import BaseModel
from sphinx.application import Sphinx


class Settings(Directive):
    """``.. settings:: module:Model``: the keys of a model, those of its sections among them, with type and default."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Called where the directive stands."""
        module, _, name = self.arguments[0].partition(":")
        model = getattr(__import__(module, fromlist=[name]), name)
        return _parsed(
            self, [line for path, section in _sections(model, "") for line in _table(path, section)], "settings"
        )


class Commands(Directive):
    """``.. commands::``: what `--help` says of each command, with its options."""

    def run(self) -> list[nodes.Node]:
        """Called where the directive stands."""
        from tokenyard.cli.app import app

        group = typer.main.get_command(app)
        lines = list[str]()
        for name, command in group.commands.items():
            lines += _command(name, command)
        return _parsed(self, lines, "options")


def _parsed(directive: Directive, lines: list[str], kind: str) -> list[nodes.Node]:
    """Markdown as nodes; every table stands under a rubric, since a directive makes no sections.

    Tables have the classes `keys` and ``kind``, by which the style sheet knows them.
    """
    holder = nodes.container()
    directive.state.nested_parse(StringList(lines, source=directive.state_machine.document["source"]), 0, holder)
    for table in holder.findall(nodes.table):
        table["classes"] += ["keys", kind]
    return holder.children


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """The model and the models in it, each with the path of its keys."""
    yield path, model
    for name, info in model.model_fields.items():
        inner, many = _model_in(info.annotation)
        if inner is not None:
            yield from _sections(inner, f"{path}{name}[]." if many else f"{path}{name}.")


def _model_in(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for argument in get_args(annotation):
        found, many = _model_in(argument)
        if found is not None:
            return found, many or get_origin(annotation) is list
    return None, False


def _table(path: str, model: type[BaseModel]) -> list[str]:
    keys = [(name, info) for name, info in model.model_fields.items() if _model_in(info.annotation)[0] is None]
    if not keys:
        return []
    lines = [f"**{path.rstrip('.')}**", ""] if path else []
    lines += ["| key | what it takes | default | |", "|---|---|---|---|"]
    for name, info in keys:
        default = "(needed)" if info.is_required() else f"`{_plain(info.get_default(call_default_factory=True))}`"
        told = " ".join((info.description or "").split()).replace("|", "\\|")
        lines.append(f"| `{name}` | {_kind(info.annotation)} | {default} | {told} |")
    return [*lines, ""]


def _plain(value: Any) -> str:
    """A default as YAML, in a line."""
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n").removesuffix("\n...")


def _kind(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_kind(a) for a in arguments if a is not type(None)))
    if origin in (list, tuple):
        return f"list of {_kind(arguments[0])}"
    if origin is not None:
        return "mapping"
    return {int: "whole number", float: "number", str: "text", bool: "`true`, `false`"}.get(annotation, "value")


def _command(name: str, command: Any) -> list[str]:
    lines = [f"**tokenyard {name}**", "", *(command.help or "").splitlines(), ""]
    lines += ["| | |", "|---|---|"]
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        shown = ", ".join(f"`{o}`" for o in [*parameter.opts, *parameter.secondary_opts])
        if parameter.param_type_name == "argument":
            shown = f"`{parameter.metavar or (parameter.name or '').upper()}`"
        told = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
        lines.append(f"| {shown} | {told} |")
    return [*lines, ""]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("settings", Settings)
    app.add_directive("commands", Commands)
    return {"version": "1", "parallel_read_safe": True}
