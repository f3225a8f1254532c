"""Which rank this process is: the one place that asks torch.distributed and the environment."""

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch.distributed

from tokenyard.errors import ConfigError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

#: What dims of a mesh are called whose processes share a model, and so need the same batches.
_SHARES_A_MODEL = frozenset(
    {"tp", "pp", "cp", "ep", "sp", "etp", "tensor", "pipeline", "context", "expert", "sequence", "model"}
)
#: What dims are called whose processes train on different data.
_SPLITS_DATA = frozenset({"dp", "ddp", "fsdp", "hsdp", "data", "replicate", "shard", "batch"})


def find_rank(
    rank: int | None = None,
    world_size: int | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    mesh: "DeviceMesh | None" = None,
) -> tuple[int, int]:
    """Return this process's data-parallel rank and the number of ranks.

    What is given counts; else the default group of torch.distributed, if it is initialized; else RANK and WORLD_SIZE,
    which torchrun sets; else one process is all there is. Give the ranks or the mesh where processes also share a model
    (tensor or pipeline parallelism): those of one model need the same batches.

    Args:
        rank: this process among those that train on different data.
        world_size: how many these are; give both or neither.
        environ: where RANK and WORLD_SIZE are looked up.
        mesh: in place of both: the data-parallel part of a device mesh. Several dims, such as dp_replicate and
            dp_shard, are counted row by row.

    Raises:
        ConfigError: one is there without the other, or one is not a number in its range; or the mesh comes beside them,
            has other dims than data-parallel ones, or doesn't hold this process.
    """
    if mesh is not None:
        if rank is not None or world_size is not None:
            raise ConfigError("mesh: given beside rank or world_size, which it would tell; give one or the other")
        return _place_in(mesh)
    if rank is None and world_size is None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        rank, world_size = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
        if rank is None and world_size is None:
            return 0, 1
    if rank is None or world_size is None:
        missing, there = ("rank", "world_size") if rank is None else ("world_size", "rank")
        raise ConfigError(f"{missing}: not given, but {there} is; give both, as arguments or as RANK and WORLD_SIZE")
    if not 0 <= rank < world_size:
        raise ConfigError(
            f"rank: expected a number from 0 to {world_size - 1}, as world_size is {world_size}, found {rank}"
        )
    return rank, world_size


def ranks_of_node(rank: int, world_size: int, environ: Mapping[str, str] = os.environ) -> range:
    """Return the ranks that run on this machine, as torchrun tells by LOCAL_RANK and LOCAL_WORLD_SIZE.

    Where it doesn't, or ranks are counted in another way than it does, this one alone is known to.
    """
    local_rank, local_size = _number(environ, "LOCAL_RANK"), _number(environ, "LOCAL_WORLD_SIZE")
    is_told = (_number(environ, "RANK"), _number(environ, "WORLD_SIZE")) == (rank, world_size)
    if local_rank is None or local_size is None or not is_told or not 0 <= local_rank < local_size:
        return range(rank, rank + 1)
    first = max(0, rank - local_rank)
    return range(first, min(world_size, first + local_size))


def _place_in(mesh: "DeviceMesh") -> tuple[int, int]:
    names, shape = mesh.mesh_dim_names or (), tuple(mesh.shape)
    refused = [name for name in names if not _is_data_parallel(name, alone=len(shape) == 1)]
    if refused or (not names and len(shape) > 1):
        wanted = [name for name in names if name not in refused] or ["dp"]
        chosen = repr(wanted[0]) if len(wanted) == 1 else ", ".join(map(repr, wanted))
        raise ConfigError(
            f"mesh: expected data-parallel dims only, found {names or 'dims without names'} of shape {shape}; "
            "processes that share a model need the same batches, so hand in the data-parallel part, such as "
            f"mesh[{chosen}]"
        )
    place = mesh.get_coordinate()
    if place is None:
        raise ConfigError(
            f"mesh: {mesh} doesn't hold this process, rank {torch.distributed.get_rank()}; build the loader only where "
            "it is used"
        )
    rank = 0
    for index, size in zip(place, shape, strict=True):
        rank = rank * size + index
    return rank, math.prod(shape)


def _is_data_parallel(name: str, *, alone: bool) -> bool:
    """Tell by the words of a name; one dim that was picked by a name of one's own is taken at that."""
    words = set(name.lower().split("_"))
    return not words & _SHARES_A_MODEL and (alone or bool(words & _SPLITS_DATA))


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"environment variable {name}: expected a whole number, found {text!r}") from None
