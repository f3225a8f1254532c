"""From a batch to the arguments of a Hugging Face model. Imports no transformers: who has a model has it imported."""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.loader import TokenLoader
from tokenyard.errors import ConfigError

#: Where wrappers keep the model: DistributedDataParallel and DataParallel, torch.compile, PEFT.
_WRAPPED = ("module", "_orig_mod", "base_model")


def check_labels(source: TokenLoader | TokenDataset, model: nn.Module) -> None:
    """Refuse labels that a model would shift once more: it would silently learn to predict two tokens ahead.

    Args:
        source: the loader that the model will train on, or its dataset.
        model: any; those of transformers that take `labels` shift them, and may be wrapped, as by
            DistributedDataParallel.

    Raises:
        ConfigError: the labels are shifted already.
    """
    dataset = source.dataset if isinstance(source, TokenLoader) else source
    shifts = _is_of_transformers(_unwrapped(model)) and "labels" in _parameters(model)
    if dataset.labels == "shifted" and shifts:
        raise ConfigError(
            f"data.sample.labels: they are shifted, and {type(_unwrapped(model)).__name__} shifts labels itself, so it "
            "would learn to predict two tokens ahead; set data.sample.labels to same"
        )


def inputs_for(
    model: nn.Module, source: TokenLoader | TokenDataset
) -> Callable[[Mapping[str, Tensor]], dict[str, Any]]:
    """Return what picks, from a batch of a loader, the arguments that a model takes: `model(**inputs(batch))`.

    A batch also says which samples it holds and where documents begin, in names of ours that models don't know.

    With `boundaries`, documents don't see each other: models of transformers find them by `position_ids` that begin
    again at 0, when they get no `attention_mask` and no cache. So that mask is left out (padding is a document of its
    own, without labels), and `use_cache` is False.

    Args:
        model: its `forward` names what it takes; may be wrapped, as by DistributedDataParallel.
        source: the loader, or its dataset.

    Raises:
        ConfigError: as `check_labels` does.
    """
    check_labels(source, model)
    names = _parameters(model)
    finds_documents = _is_of_transformers(_unwrapped(model)) and "position_ids" in names

    def inputs(batch: Mapping[str, Tensor]) -> dict[str, Any]:
        taken: dict[str, Any] = {name: tensor for name, tensor in batch.items() if name in names}
        if finds_documents and "document_ids" in batch:
            taken.pop("attention_mask", None)
            if "use_cache" in names:
                taken["use_cache"] = False
        return taken

    return inputs


def _unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside its wrappers. Models of transformers have a `base_model` too, their own body."""
    while not _is_of_transformers(model):
        inner = next((m for name in _WRAPPED if isinstance(m := getattr(model, name, None), nn.Module)), None)
        if inner is None:
            return model
        model = inner
    return model


def _is_of_transformers(model: nn.Module) -> bool:
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(model, transformers.PreTrainedModel)


def _parameters(model: nn.Module) -> frozenset[str]:
    found = inspect.signature(_unwrapped(model).forward).parameters.values()
    return frozenset(p.name for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
