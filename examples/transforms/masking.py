"""Masking: some tokens are hidden, and only these are labels, as masked language models are trained.

    python examples/transforms/masking.py --config configs/train-npy.yaml --mask-id 253 --vocab-size 256

Prints a few samples before and after, and their labels. In a training script::

    transform = Masking(mask_id=253, vocab_size=256, special_ids=(0,))
    loader = tokenyard.build_dataloader("train.yaml", transform=transform)

A label stands at the place of the token that was hidden, whatever `labels` in the settings says; `none` is refused.
The rates are those of Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2018.
"""

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

import tokenyard

IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class Masking:
    """A transform for `build_dataloader` and `TokenDataset`.

    Each token is chosen with the chance `rate`. Of the chosen ones 80 % become `mask_id`, 10 % a random id, and 10 %
    stay as they are. Special ids, and tokens that the corpus's `loss_mask` leaves out, are never chosen.

    Attributes:
        mask_id: what stands for a hidden token.
        vocab_size: random ids are below it.
        rate: how many of the tokens are chosen.
        mask_rate, random_rate: how many of the chosen ones are hidden, and how many become random.
        special_ids: ids such as EOS.
    """

    mask_id: int
    vocab_size: int
    rate: float = 0.15
    mask_rate: float = 0.8
    random_rate: float = 0.1
    special_ids: tuple[int, ...] = ()

    def __call__(self, sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        tokens, width = sample["tokens"], sample["input_width"]
        hidden = tokens[:width]  # a view: what is written to it is written to tokens
        chosen = (rng.random(width) < self.rate) & ~np.isin(hidden, self.special_ids)
        if "loss_mask" in sample:
            chosen &= sample["loss_mask"][:width]
        labels = np.where(chosen, hidden, IGNORED)
        fate, random_ids = rng.random(width), rng.integers(0, self.vocab_size, width)
        is_masked = chosen & (fate < self.mask_rate)
        is_random = chosen & (fate >= self.mask_rate) & (fate < self.mask_rate + self.random_rate)
        hidden[is_masked] = self.mask_id
        hidden[is_random] = random_ids[is_random]
        return {"tokens": tokens, "labels": labels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="settings as in configs/train-*.yaml")
    parser.add_argument("--mask-id", required=True, type=int)
    parser.add_argument("--vocab-size", required=True, type=int)
    parser.add_argument("--samples", type=int, default=3)
    args = parser.parse_args()

    settings = tokenyard.load_config(args.config)
    transform = Masking(mask_id=args.mask_id, vocab_size=args.vocab_size)
    before = next(iter(tokenyard.build_dataloader(settings, 0, 1)))
    after = next(iter(tokenyard.build_dataloader(settings, 0, 1, transform=transform)))
    for i in range(min(args.samples, len(before["input_ids"]))):
        print("before", before["input_ids"][i].tolist())
        print("after ", after["input_ids"][i].tolist())
        print("labels", after["labels"][i].tolist())


if __name__ == "__main__":
    main()
