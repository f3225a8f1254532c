"""Which rank this process is: the one place that asks torch.distributed and the environment."""

import os
from collections.abc import Mapping

import torch.distributed

from tokenyard.errors import ConfigError


def find_rank(
    rank: int | None = None, world_size: int | None = None, environ: Mapping[str, str] = os.environ
) -> tuple[int, int]:
    """Return this process's data-parallel rank and the number of ranks.

    What is given counts; else the default group of torch.distributed, if it is initialized; else RANK and WORLD_SIZE,
    which torchrun sets; else one process is all there is. Give both where ranks also share a model (tensor or pipeline
    parallelism): those of one model need the same batches.

    Raises:
        ConfigError: one is there without the other, or one is not a number in its range.
    """
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


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"environment variable {name}: expected a whole number, found {text!r}") from None
