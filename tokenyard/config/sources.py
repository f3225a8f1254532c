"""Settings of mixtures: which corpora are mixed, and how much of each."""

from os.path import basename
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tokenyard.config.reading import Count, ReadConfig


class SourceConfig(ReadConfig):
    """A corpus of a mixture. Format and read are as in data; the rest of these keys is for corpora of others."""

    path: str | list[str]
    """A folder, a file, a list of files, or a URL."""
    name: str = ""
    """What messages and logs call it; the last part of path when not given."""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Its share, beside the weights of the others; they need not add up to 1."""
    at_end: Literal["repeat", "stop", "raise"] = "repeat"
    """What happens when all of it was drawn: it begins again in another order, the run ends, or an error comes."""
    max_epochs: Count = 1
    """With at_end stop or raise, how many times it is gone through before that."""

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_path(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("name") in (None, ""):
            return values | {"name": _last_part(values.get("path"))}
        return values

    @model_validator(mode="after")
    def _some_name(self) -> Self:
        if not self.name:
            raise ValueError(f"path {self.path!r} ends in no name; give the source one by its key name")
        return self

    @model_validator(mode="after")
    def _epochs_to_count(self) -> Self:
        if self.at_end == "repeat" and self.max_epochs != 1:
            raise ValueError(
                f"max_epochs is {self.max_epochs}, but at_end is repeat, which never ends; set at_end to stop or "
                "raise, or leave max_epochs out"
            )
        return self


def _last_part(path: Any) -> str:
    """Return the name of a folder or a file; of a list of files, that of the first."""
    first = path[0] if isinstance(path, list) and path else path
    return basename(first.rstrip("/")) if isinstance(first, str) else ""
