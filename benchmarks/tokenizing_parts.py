"""Where the time of tokenizing goes: the parts of a task, each by itself, against the engine on texts in memory.

One process, one core, seconds of the processor, the least of all repeats. `lines` finds the lines of a JSONL file,
`parsing` makes documents of them, `encoding` is what a batch takes beside the engine: looking for special text, the
proof, casts and marks. `writing` is a corpus of npy, digested and checksummed; `reading back` decodes it once more and
digests it. All in nanoseconds for each byte of text, and as a share of what the engine takes::

    python benchmarks/tokenizing_parts.py --megabytes 60
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import results
from benchmarks.tokenizing import batches, gpt2, sources, write_jsonl
from tokenyard.converters.encoding import Encoding, cut, encode_documents
from tokenyard.converters.engines import build_engine, choose_engine, limit_threads, load_tokenizer
from tokenyard.converters.text import BadRecord, TextOptions, plan_texts, read_split
from tokenyard.converters.text.lines import read_lines
from tokenyard.digest import Digester

QUICK = ["--megabytes", "1", "--repeats", "1"]
exhaust: Callable[[Any], Any] = deque(maxlen=0).extend


def least(work: Callable[[], Any], repeats: int) -> float:
    """Seconds of the processor that work takes, the least of some times."""
    best = float("inf")
    for _ in range(repeats):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def measure(args: argparse.Namespace, folder: Path) -> tuple[int, dict[str, float]]:
    """Return the bytes of text, and the seconds of each part."""
    texts = sources(args.megabytes)
    path, options = write_jsonl(folder / "texts.jsonl", texts), TextOptions()
    spec = load_tokenizer(args.tokenizer or gpt2(folder), eos_token=args.eos)
    name = choose_engine(spec).engine.name
    limit_threads()
    engine = build_engine(name, spec, "encode")
    schema = tokenyard.Schema(token_dtype="uint16" if spec.max_id < 1 << 16 else "uint32", vocab_size=spec.max_id + 1)
    encoding = Encoding(
        spec=spec, engine=name, special_text="encode", add_bos=False, add_eos=True, prove_share=args.prove_share
    )
    splits = plan_texts([str(path)], options).splits
    documents = [cut(encoding, d) for s in splits for d in read_split(s, options) if not isinstance(d, BadRecord)]
    good = [document for document in documents if not isinstance(document, BadRecord)]
    encoded = list(encode_documents(encoding, good, schema, {}))
    places = iter(range(args.repeats))

    def write() -> None:
        with tokenyard.CorpusWriter(folder / str(next(places)), format="npy", schema=schema) as writer:
            for batch in encoded:
                writer.write_batch(batch)

    def read_back() -> None:
        digester = Digester()
        for batch in tokenyard.open_corpus(folder / "0").batches():
            digester.update(batch)

    least_of = partial(least, repeats=args.repeats)
    lines = least_of(lambda: [exhaust(read_lines(s, options)) for s in splits])
    parsed = least_of(lambda: [exhaust(read_split(s, options)) for s in splits])
    alone = least_of(lambda: [engine.encode_batch(batch) for batch in batches(texts)])
    whole = least_of(lambda: exhaust(encode_documents(encoding, good, schema, {})))
    return sum(len(text.encode()) for text in texts), {
        "engine": alone,
        "lines": lines,
        "parsing": parsed - lines,
        "encoding": whole - alone,
        "writing": least_of(write),
        "reading back": least_of(read_back),
    }


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each part."""
    parser = results.parser(__doc__)
    parser.add_argument("--megabytes", type=float, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json; GPT-2's when not given")
    parser.add_argument("--eos", default="<|endoftext|>", help="its EOS token")
    parser.add_argument("--prove-share", type=float, default=0.001, help="documents encoded again as proof")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        num_bytes, seconds = measure(args, Path(folder))
    rates = {f"{part}, ns a byte": 1e9 * took / num_bytes for part, took in seconds.items()}
    found = [
        results.Result(
            work="tokenizing, parts",
            case=part,
            measured=took / seconds["engine"],
            unit="of the engine",
            rates=rates,
        )
        for part, took in seconds.items()
    ]
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
