"""Train a small GPT on any corpus: the storage format is whatever the settings name, the losses are the same.

    torchrun --nproc-per-node 2 examples/train.py --config configs/train-npy.yaml --steps 20

Prints one line a step, `step N loss X`, with every digit of the loss, and at the end a digest of all global batches.
Two runs with the same settings and number of ranks print the same losses, to the last bit; the digest is the same for
any number of ranks.
"""

import argparse
import os
from collections.abc import Iterator
from itertools import islice

import torch
import torch.distributed as dist
from blake3 import blake3
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel

import tokenyard
from tokenyard.datasets.loader import TokenLoader

WIDTH, NUM_HEADS, NUM_LAYERS = 64, 4, 2


class Layer(nn.Module):
    """Attention over what came before, then a feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        batch, seq_len, _ = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, seq_len, 3, NUM_HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(*qkv, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norms[1](x))


class SmallGPT(nn.Module):
    """A decoder whose output shares the embedding's weights. Returns the mean loss of the labels that are not -100."""

    def __init__(self, vocab_size: int, seq_len: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, WIDTH), nn.Embedding(seq_len, WIDTH)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.layers = nn.Sequential(*[Layer() for _ in range(NUM_LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        # Padding stands at the end of a sample, where causal attention never looks, and has no labels.
        x = self.tokens(input_ids) + self.positions.weight[: input_ids.shape[1]]
        logits = linear(self.norm(self.layers(x)), self.tokens.weight)
        loss = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        return loss / (labels != -100).sum().clamp(min=1)


def epochs(loader: TokenLoader) -> Iterator[dict[str, Tensor]]:
    """The micro-batches of one epoch after another; each iteration over a loader is the next one."""
    while True:
        yield from loader


def from_all_ranks(tensor: Tensor) -> list[Tensor]:
    """A tensor of every rank, in the order of ranks."""
    if not dist.is_initialized():
        return [tensor]
    found = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(found, tensor)
    return found


def train(loader: TokenLoader, num_steps: int, seed: int, device: torch.device) -> None:
    vocab_size, seq_len = loader.dataset.corpus.schema.vocab_size, loader.dataset.seq_len
    if vocab_size is None or seq_len is None:
        raise SystemExit("this example needs a corpus that says its vocab_size, and samples of one length: set seq_len")
    is_first_rank = loader.sampler.partition.rank == 0

    torch.manual_seed(seed)
    model: nn.Module = SmallGPT(vocab_size, seq_len).to(device)
    if dist.is_initialized():
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batches = epochs(loader)
    digest = blake3()
    for step in range(1, num_steps + 1):
        loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        micro_batches = list(islice(batches, loader.micro_batches_per_step))
        for batch in micro_batches:
            inputs, labels = (batch[name].to(device, non_blocking=True) for name in ("input_ids", "labels"))
            loss = model(inputs, labels) / len(micro_batches)
            loss.backward()
            loss_sum += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        # The global batch is the micro-batches of each rank, the ranks in their order.
        for name in ("sample_ids", "input_ids", "labels"):
            for part in from_all_ranks(torch.cat([batch[name] for batch in micro_batches]).to(device)):
                digest.update(part.cpu().numpy().tobytes())
        mean = torch.stack(from_all_ranks(loss_sum)).mean().item()
        if is_first_rank:
            print(f"step {step} loss {mean!r}", flush=True)
    if is_first_rank:
        print(f"batches {digest.hexdigest()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="settings as in configs/train-*.yaml")
    parser.add_argument("--path", help="read this corpus in place of data.path, whatever its format")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the model; that of the order is in the settings")
    args = parser.parse_args()

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    has_cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if has_cuda else torch.device("cpu")
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if has_cuda else "gloo")

    settings = tokenyard.load_config(args.config)
    if args.path:
        data = settings.data.model_copy(update={"path": args.path, "format": "auto"})
        settings = settings.model_copy(update={"data": data})
    # The model goes first, at the end of `train`: were it the last to hold the process group, its destructor would wait
    # for gloo's threads while they wait for Python.
    train(tokenyard.build_dataloader(settings), args.steps, args.seed, device)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
