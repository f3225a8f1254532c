"""What a model says of itself: the ``config.json`` of transformers, read as JSON; no code of a model is run."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenyard.errors import ConfigError
from tokenyard.storage import storage_error


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What is compared with a corpus; None or empty where the model doesn't say it.

    Attributes:
        vocab_size: rows of its embedding: ids from here on have none.
        eos_ids: ids that end its texts.
        bos_id: the id that begins them.
        max_positions: tokens of the longest sequence that it was made for.
    """

    vocab_size: int | None = None
    eos_ids: tuple[int, ...] = ()
    bos_id: int | None = None
    max_positions: int | None = None


def model_facts(path: str | os.PathLike[str] | None, vocab_size: int | None) -> ModelFacts:
    """Read a model's config.json, of a file or a folder, or take its vocabulary as given.

    Raises:
        ConfigError: both are given, or there is no such file, or it is none of a model.
        StorageError: it can't be read.
    """
    if path is None:
        return ModelFacts(vocab_size=vocab_size)
    if vocab_size is not None:
        raise ConfigError("model and vocab_size both say how many ids the model has; give one of them")
    file = Path(path)
    file = file / "config.json" if file.is_dir() else file
    said = _read(file)
    # Models of several kinds of input say it of their text.
    said = {**said, **text} if isinstance(text := said.get("text_config"), dict) else said
    size = _count(said.get("vocab_size"))
    if size is None:
        raise ConfigError(
            f"{file}: expected the config.json of a model, with its vocab_size, found the keys "
            f"{', '.join(sorted(said)[:8]) or 'none'}; name another file, or say the size by vocab_size"
        )
    eos = said.get("eos_token_id")
    ids = [_count(number) for number in (eos if isinstance(eos, list) else [eos])]
    return ModelFacts(
        vocab_size=size,
        eos_ids=tuple(number for number in ids if number is not None),
        bos_id=_count(said.get("bos_token_id")),
        max_positions=_count(said.get("max_position_embeddings")) or _count(said.get("n_positions")),
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        said = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise ConfigError(
            f"{file}: no such file; name the config.json of the model, or its folder: nothing is downloaded"
        ) from None
    except OSError as e:
        raise storage_error(e, f"can't read {file}") from e
    except ValueError as e:
        raise ConfigError(f"{file}: expected the config.json of a model, found no JSON: {e}") from None
    if not isinstance(said, dict):
        raise ConfigError(f"{file}: expected the config.json of a model, found {said!r:.60}")
    return said


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
