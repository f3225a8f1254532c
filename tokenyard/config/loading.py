"""The one way that settings come in: a YAML file or any mapping, to a checked model."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import BaseModel, ValidationError

from tokenyard.config.jobs import (
    ConvertConfig,
    FilterConfig,
    JobConfig,
    MergeConfig,
    PackConfig,
    SplitConfig,
    TokenizeConfig,
)
from tokenyard.config.problems import describe, section_of
from tokenyard.config.section import Section
from tokenyard.config.training import TrainConfig
from tokenyard.config.yaml_lines import KeyPath, read_yaml
from tokenyard.errors import ConfigError

Model = TypeVar("Model", bound=Section)
JOBS: dict[str, type[JobConfig]] = {
    "convert": ConvertConfig,
    "filter": FilterConfig,
    "merge": MergeConfig,
    "pack": PackConfig,
    "split": SplitConfig,
    "tokenize": TokenizeConfig,
}
#: Where settings come from: a YAML file, a mapping (a dict, Hydra's and OmegaConf's among them), or a model as it is.
Source = str | os.PathLike[str] | Mapping[str, Any] | Section


@overload
def load_config(source: Source) -> TrainConfig: ...
@overload
def load_config(source: Source, model: type[Model]) -> Model: ...
def load_config(source: Source, model: type[Section] = TrainConfig) -> Section:
    """Read and check settings.

    Args:
        source: a YAML file, a mapping, or a model that is checked already.
        model: which settings: `TrainConfig`, or those of a job, such as `ConvertConfig`.

    Returns:
        A frozen model. Paths in it are as given: relative ones count from the working directory, not from the file.

    Raises:
        ConfigError: names every key that is unknown, missing or of a wrong value, with its line in the file.
        StorageError: the file can't be read.
    """
    if isinstance(source, model):
        return source
    lines: dict[KeyPath, int] = {}
    if isinstance(source, Section):
        raise ConfigError(f"expected settings of {model.__name__}, found those of {type(source).__name__}")
    if isinstance(source, Mapping):
        where, data = "", _plain(source)
    else:
        where = f"{os.fspath(source)}: "
        data, lines = read_yaml(Path(source).expanduser())
    if not isinstance(data, dict):
        raise ConfigError(
            f"{where}expected keys and values such as {next(iter(model.model_fields))!r}, found {data!r:.60}"
        )
    data = _without_empty_sections(data, model)
    try:
        return model.model_validate(data)
    except ValidationError as e:
        raise ConfigError(where + describe(e, model, data, lines)) from None


def load_job(source: Source, job: str) -> dict[str, Any]:
    """Read and check the settings of a job: `convert`, `filter`, `merge`, `pack`, `split` or `tokenize`.

    Returns:
        The keys that are given, with plain values: arguments of the function of that name (`filter_rows`), those of the
        format's writer under `options`.

    Raises:
        ConfigError: no such job, or as `load_config` does.
        StorageError: the file can't be read.
    """
    if job not in JOBS:
        raise ConfigError(f"expected one of the jobs {', '.join(JOBS)}, found {job!r}")
    return load_config(source, JOBS[job]).model_dump(exclude_unset=True, exclude_none=True)


def json_schema(model: type[Section] = TrainConfig) -> dict[str, Any]:
    """Return the JSON schema of settings, by which editors complete and check YAML files."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


def _plain(value: Any) -> Any:
    """Mappings and lists of any kind as dicts and lists."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value


def _without_empty_sections(data: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """A section whose keys are all commented out reads as null; take it as one without keys, where it has a default."""
    found = dict(data)
    for name, field in model.model_fields.items():
        section = section_of(field.annotation)
        if section is None or name not in found:
            continue
        if found[name] is None and field.default is not None and issubclass(section, Section):
            found[name] = {}
        if isinstance(found[name], dict):
            found[name] = _without_empty_sections(found[name], section)
    return found
