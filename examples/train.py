"""Train a small GPT on any corpus: the storage format is whatever the settings name, the losses are the same.

    torchrun --nproc-per-node 2 examples/train.py --config configs/train-npy.yaml --steps 20

Prints one line a step, `step N loss X samples D`: every digit of the loss, and a digest of which samples the step took.
At the end comes a digest of all that was in the batches. Two runs with the same settings and number of ranks print the
same losses, to the last bit; the digests are the same for any number of ranks.

    torchrun --nproc-per-node 2 examples/train.py --config configs/train-npy.yaml --steps 20 --checkpoint data/run

With `--checkpoint` a run that was stopped, by kill -9 too, goes on when the same command is given again, also at
another number of ranks, and prints the lines that it would have printed. To begin anew, name another folder.
"""

import argparse
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from blake3 import blake3
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, scaled_dot_product_attention
from torch.nn.utils import parameters_to_vector, vector_to_parameters

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
    """A decoder whose output shares the embedding's weights. Gives the sum of all losses but those of labels -100."""

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
        return cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")


def steps_of(loader: TokenLoader) -> Iterator[list[dict[str, Tensor]]]:
    """The micro-batches of one optimizer step after another, from epoch to epoch."""
    while True:
        yield from loader.steps()


def from_all_ranks(tensor: Tensor) -> Tensor:
    """A tensor of every rank, stacked in the order of ranks."""
    if not dist.is_initialized():
        return tensor[None]
    found = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(found, tensor)
    return torch.stack(found)


def sum_gradients(model: nn.Module) -> None:
    """Add up the gradients of all ranks, always in the same order.

    DistributedDataParallel regroups them after the first step it makes, also the first one after a resume: from three
    ranks on, the last bit of a sum would then depend on where a run was stopped.
    """
    if dist.is_initialized():
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        flat = parameters_to_vector(gradients)
        dist.all_reduce(flat)
        vector_to_parameters(flat, gradients)


def path_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:010d}.pt"


def save(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint, which appears whole or not at all, and keep the one before it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    with open(unfinished, "wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    for old in [*sorted(path.parent.glob("step-*.pt"))[:-2], *path.parent.glob("step-*.tmp")]:
        old.unlink()


def newest_step(folder: Path, device: torch.device) -> int:
    """The step of the newest checkpoint that the first rank sees, or 0."""
    steps = [int(path.stem.removeprefix("step-")) for path in folder.glob("step-*.pt")]
    return int(from_all_ranks(torch.tensor(max(steps, default=0), device=device))[0])


def train(
    loader: TokenLoader, num_steps: int, seed: int, device: torch.device, folder: Path | None, save_every: int
) -> None:
    vocab_sizes, seq_len = [corpus.schema.vocab_size for corpus in loader.dataset.corpora], loader.dataset.seq_len
    if None in vocab_sizes or seq_len is None:
        raise SystemExit("this example needs corpora that say their vocab_size, and samples of one length: set seq_len")

    torch.manual_seed(seed)
    model = SmallGPT(max(vocab_sizes), seq_len).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batches = bytes(32)
    if folder is not None and (step := newest_step(folder, device)):
        checkpoint = torch.load(path_of(folder, step), map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["loader"])
        batches = checkpoint["batches"]
        if loader.rank == 0:
            print(f"going on after step {step}", flush=True)

    for micro_batches in islice(steps_of(loader), max(0, num_steps - loader.step)):
        step = loader.step
        # What a model draws, as for dropout, hangs on these numbers alone, so that no generator's state is to be kept.
        torch.manual_seed(seed + 1_000_003 * step + loader.rank)
        # Each label of the global batch counts alike, wherever it is: the mean is over all of them.
        num_labels = from_all_ranks(sum((b["labels"] != -100).sum() for b in micro_batches).to(device)).sum().clamp(1)
        loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        for batch in micro_batches:
            inputs, labels = (batch[name].to(device, non_blocking=True) for name in ("input_ids", "labels"))
            loss = model(inputs, labels) / num_labels
            loss.backward()
            loss_sum += loss.detach()
        sum_gradients(model)
        optimizer.step()
        optimizer.zero_grad()

        mean = from_all_ranks(loss_sum).sum().item()
        # The global batch is the micro-batches of each rank, the ranks in their order.
        content = {
            name: from_all_ranks(torch.cat([batch[name] for batch in micro_batches]).to(device)).cpu().numpy().tobytes()
            for name in ("sample_ids", "source_ids", "input_ids", "labels")
            if name in micro_batches[0]
        }
        samples = blake3(content["sample_ids"] + content.get("source_ids", b"")).hexdigest()
        batches = blake3(batches + b"".join(content.values())).digest()
        if loader.rank == 0:
            print(f"step {step} loss {mean!r} samples {samples}", flush=True)
        if folder is not None and (step % save_every == 0 or step == num_steps):
            if loader.rank == 0:
                states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                save(path_of(folder, step), {**states, "loader": loader.state_dict(), "batches": batches})
            if dist.is_initialized():
                dist.barrier()
    if loader.rank == 0:
        print(f"batches {batches.hex()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="settings as in configs/train-*.yaml")
    parser.add_argument("--path", help="read this corpus in place of those in the settings, whatever its format")
    parser.add_argument("--steps", type=int, default=20, help="of the run, those before a resume included")
    parser.add_argument("--seed", type=int, default=0, help="of the model; that of the order is in the settings")
    parser.add_argument(
        "--checkpoint", type=Path, help="the folder of the run's checkpoints; goes on from the last one"
    )
    parser.add_argument("--checkpoint-every", type=int, default=100, help="steps from one checkpoint to the next")
    args = parser.parse_args()

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    has_cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if has_cuda else torch.device("cpu")
    if has_cuda:
        torch.cuda.set_device(device)
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if has_cuda else "gloo")

    settings = tokenyard.load_config(args.config)
    if args.path:
        data = settings.data.model_copy(update={"path": args.path, "sources": None, "format": "auto"})
        settings = settings.model_copy(update={"data": data})
    train(tokenyard.build_dataloader(settings), args.steps, args.seed, device, args.checkpoint, args.checkpoint_every)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
