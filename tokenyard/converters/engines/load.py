"""Loading a tokenizer: by name, from a folder, or out of a tokenizer.json."""

import json
import os
from pathlib import Path
from typing import Any

from tokenyard.converters.engines.hub import not_found, why_unreachable
from tokenyard.converters.engines.spec import TokenizerSpec, canonical_json, fingerprint
from tokenyard.errors import MissingDependencyError, UnknownTokenizerError

_PROBE = "The quick brown fox jumps over 13 lazy dogs.\n"
# What a tokenizer.json of a folder is compared with the loaded tokenizer on.
_COMPARED = ("Hello world", " two  spaces\n\n\tand 1234567 don't WON'T", "é 漢字 \u00a0x ﬁ", "f(x)=[{}]; // <s></s>")


def load_tokenizer(
    name_or_path: str | os.PathLike[str], *, eos_token: str | None = None, bos_token: str | None = None
) -> TokenizerSpec:
    """Load a tokenizer as `transformers` does; code from elsewhere is never run.

    A path to a file is a tokenizer.json, which names no EOS and no BOS: give them with `eos_token` and `bos_token`.
    Both must be in the vocabulary. They overrule those of a folder or name.

    UnknownTokenizerError when there is none, when it gives no ids (transformers 5 builds an empty vocabulary out of
    the old files of some tokenizers), or when its ids are random (BPE dropout). MissingDependencyError without
    transformers.
    """
    name = os.fspath(name_or_path)
    tokenizer = _load(name)
    warnings = _compare_with_json(name, tokenizer)
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    for key, token in (("eos_token", eos_token), ("bos_token", bos_token)):
        if token is not None:
            if token not in vocabulary:
                raise UnknownTokenizerError(f"{name}: {key} {token!r} is not in its vocabulary of {len(vocabulary)}")
            tokenizer.add_special_tokens({key: token})
    tokenizer.model_max_length = int(1e30)  # else transformers warns of every longer text
    _refuse_unusable(name, tokenizer, vocabulary)

    canonical = _canonical(tokenizer)
    added = {token.content: token.special for token in tokenizer.added_tokens_decoder.values()}
    special = {content for content, is_special in added.items() if is_special} | set(tokenizer.all_special_tokens)
    return TokenizerSpec(
        name=name,
        tokenizer=tokenizer,
        json=canonical,
        fingerprint=fingerprint(canonical if canonical is not None else _slow_content(tokenizer, vocabulary)),
        vocab_size=len(vocabulary),
        max_id=max(vocabulary.values()),
        eos_id=tokenizer.eos_token_id,
        bos_id=tokenizer.bos_token_id,
        special_tokens=tuple(sorted(special)),
        added_tokens=tuple(sorted(special | added.keys())),
        warnings=warnings,
    )


def _load(name: str) -> Any:
    try:
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise MissingDependencyError("tokenizing needs transformers: pip install 'tokenyard[tokenize]'") from error
    file = _tokenizer_json(name)
    if file is None and not Path(name).exists() and (name.endswith(".json") or Path(name).is_absolute()):
        raise UnknownTokenizerError(f"{name}: no such file, looked for at {Path(name).absolute()}")
    unreachable = why_unreachable() if file is None and not Path(name).exists() else None
    try:
        if file is not None:
            return PreTrainedTokenizerFast(tokenizer_file=str(file))  # type: ignore[no-untyped-call]
        from transformers import AutoTokenizer  # brings torch, where that is installed

        offline = unreachable is not None
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False, local_files_only=offline)
    except Exception as error:  # transformers and tokenizers raise anything, plain Exception among it
        raise UnknownTokenizerError(_explain(name, file, unreachable, error)) from error


def _tokenizer_json(name: str) -> Path | None:
    """Return the file to load alone: `name` itself, or all that a folder has."""
    path = Path(name)
    if path.is_file():
        return path
    alone = path / "tokenizer.json"
    has_config = any((path / other).exists() for other in ("tokenizer_config.json", "config.json"))
    return alone if alone.is_file() and not has_config else None


def _explain(name: str, file: Path | None, unreachable: str | None, error: Exception) -> str:
    if file is not None:
        return f"{file}: not a tokenizer.json that transformers can load: {error}"
    if "trust_remote_code" in str(error):
        return f"{name}: needs code from its repository, which tokenyard never runs; export a tokenizer.json from it"
    if Path(name).is_dir():
        held = ", ".join(sorted(path.name for path in Path(name).iterdir())[:20])
        return f"{name}: transformers can't load a tokenizer from this folder, which holds {held or 'nothing'}: {error}"
    return not_found(name, str(Path(name).absolute()), unreachable, error)


def _refuse_unusable(name: str, tokenizer: Any, vocabulary: dict[str, int]) -> None:
    if not tokenizer(_PROBE, add_special_tokens=False)["input_ids"]:
        raise UnknownTokenizerError(
            f"{name}: gives no ids for ordinary text; its vocabulary has {len(vocabulary)} tokens. transformers builds "
            "an empty one out of vocab.json and merges.txt: save it as a tokenizer.json and load that"
        )
    if tokenizer.is_fast:
        dropout = getattr(tokenizer.backend_tokenizer.model, "dropout", None)
        if dropout:
            raise UnknownTokenizerError(
                f"{name}: has BPE dropout {dropout}, so its ids are random; set dropout to null"
            )


def _canonical(tokenizer: Any) -> str | None:
    if not tokenizer.is_fast:
        return None
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return canonical_json(tokenizer.backend_tokenizer.to_str())


def _slow_content(tokenizer: Any, vocabulary: dict[str, int]) -> str:
    """Return what defines a slow tokenizer, as far as it can be told: its class, its tokens and its files."""
    files = {
        key: Path(path).read_bytes().hex()
        for key in sorted(getattr(tokenizer, "vocab_files_names", {}))
        if (path := getattr(tokenizer, key, None)) and Path(path).is_file()
    }
    added = sorted((number, str(token)) for number, token in tokenizer.added_tokens_decoder.items())
    content = [type(tokenizer).__name__, sorted(vocabulary.items()), added, files]
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _compare_with_json(name: str, tokenizer: Any) -> tuple[str, ...]:
    """Warn when transformers rebuilds a tokenizer into one that its tokenizer.json is not."""
    file = _json_beside(name)
    if file is None:
        return ()
    from tokenizers import Tokenizer

    raw = Tokenizer.from_file(str(file))
    raw.no_truncation()
    raw.no_padding()
    for text in _COMPARED:
        ours = tokenizer(text, add_special_tokens=False)["input_ids"]
        theirs = raw.encode(text, add_special_tokens=False).ids
        if ours != theirs:
            return (
                f"{name}: transformers loads it as {type(tokenizer).__name__}, which encodes {text!r} to {ours}; its "
                f"tokenizer.json gives {theirs}. Name the file {file} itself to get those ids",
            )
    return ()


def _json_beside(name: str) -> Path | None:
    """Return the tokenizer.json that came with a folder or a name; None where there is none, or it is all there is."""
    if Path(name).exists():
        file = Path(name) / "tokenizer.json"
        return file if file.is_file() else None
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(name, "tokenizer.json")
    return Path(cached) if isinstance(cached, str) else None
