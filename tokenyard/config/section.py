"""What all sections of settings have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A group of keys: nothing unknown, nothing converted (`"8"` and `true` are no numbers), nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)
