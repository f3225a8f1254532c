"""Fill-in-the-middle: documents are cut in three, and the middle comes last, so that a model learns to fill gaps.

    python examples/transforms/fill_in_the_middle.py --config configs/train-npy.yaml --sentinels 252 253 254

Prints a few samples before and after. In a training script::

    transform = FillInTheMiddle(prefix_id=252, middle_id=253, suffix_id=254, eos_token_id=0)
    loader = tokenyard.build_dataloader("train.yaml", transform=transform)

With `boundaries` or `mask_boundaries` in the settings each document is cut by itself; else a sample counts as one.
The two forms are those of Bavarian et al., "Efficient Training of Language Models to Fill in the Middle", 2022.
"""

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tokenyard

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FillInTheMiddle:
    """A transform for `build_dataloader` and `TokenDataset`.

    A document becomes either PSM, `<prefix> P <suffix> S <middle> M`, or SPM, `<prefix> <suffix> S <middle> P M`, of
    its parts P, M and S, each of which may be empty. Each that is cut grows by three tokens; samples stay as long as
    they were, so what no longer fits is lost at their end. `loss_mask` and `document_starts` move with the tokens;
    sentinels may be labels.

    Attributes:
        prefix_id, middle_id, suffix_id: sentinels, ids that no text has.
        rate: how many of the documents are cut.
        spm_rate: how many of these become SPM.
        min_tokens: documents of fewer are left alone.
        eos_token_id: a last token of this id stays the last.
    """

    prefix_id: int
    middle_id: int
    suffix_id: int
    rate: float = 0.5
    spm_rate: float = 0.5
    min_tokens: int = 8
    eos_token_id: int | None = None

    def __call__(self, sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        tokens, loss_mask, starts = sample["tokens"], sample.get("loss_mask"), sample.get("document_starts")
        begins = np.flatnonzero(starts) if starts is not None else np.zeros(1, np.int64)
        ends = np.append(begins[1:], len(tokens))
        # Where each new token comes from: its place among the old ones, or an id below zero for a sentinel.
        parts = [self._document(tokens, begin, end, rng) for begin, end in zip(begins, ends, strict=True)]
        source = np.concatenate(parts)[: len(tokens)]
        is_sentinel = source < 0
        place = np.where(is_sentinel, 0, source)
        result = {"tokens": np.where(is_sentinel, ~source, tokens[place])}
        if loss_mask is not None:
            result["loss_mask"] = is_sentinel | loss_mask[place]
        if starts is not None:
            new_begins = np.cumsum([0, *map(len, parts[:-1])])
            result["document_starts"] = np.zeros(len(tokens), np.bool_)
            result["document_starts"][new_begins[new_begins < len(tokens)]] = True
        return result

    def _document(self, tokens: Int64Array, begin: int, end: int, rng: np.random.Generator) -> Int64Array:
        """The places begin .. end in their new order, and sentinels, each as the complement of its id."""
        places = np.arange(begin, end)
        if len(places) < self.min_tokens or rng.random() >= self.rate:
            return places
        places, last = np.split(places, [len(places) - int(tokens[end - 1] == self.eos_token_id)])
        prefix, middle, suffix = np.split(places, np.sort(rng.integers(0, len(places) + 1, 2)))
        if rng.random() < self.spm_rate:
            parts = [[~self.prefix_id, ~self.suffix_id], suffix, [~self.middle_id], prefix, middle, last]
        else:
            parts = [[~self.prefix_id], prefix, [~self.suffix_id], suffix, [~self.middle_id], middle, last]
        return np.concatenate(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="settings as in configs/train-*.yaml")
    parser.add_argument("--sentinels", required=True, type=int, nargs=3, metavar=("PREFIX", "MIDDLE", "SUFFIX"))
    parser.add_argument("--samples", type=int, default=3)
    args = parser.parse_args()

    settings = tokenyard.load_config(args.config)
    prefix, middle, suffix = args.sentinels
    transform = FillInTheMiddle(prefix_id=prefix, middle_id=middle, suffix_id=suffix, rate=1.0)
    before = next(iter(tokenyard.build_dataloader(settings, 0, 1)))
    after = next(iter(tokenyard.build_dataloader(settings, 0, 1, transform=transform)))
    for i in range(min(args.samples, len(before["input_ids"]))):
        print("before", before["input_ids"][i].tolist())
        print("after ", after["input_ids"][i].tolist())


if __name__ == "__main__":
    main()
