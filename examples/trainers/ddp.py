"""Plain PyTorch: DistributedDataParallel, and a loop that can stop after any step and go on there.

torchrun --nproc-per-node 2 examples/trainers/ddp.py --config configs/train-npy.yaml --checkpoint runs/ddp
"""

import os

import torch
import torch.distributed as dist
from recipe import arguments, label_weight, vocab_size
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import tokenyard


def main() -> None:
    args = arguments(__doc__)
    has_cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_cuda else torch.device("cpu")
    dist.init_process_group("nccl" if has_cuda else "gloo")

    loader = tokenyard.build_dataloader(args.config)  # this rank's part, as torch.distributed tells the rank
    torch.manual_seed(0)
    size = vocab_size(loader)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(size, 32), nn.Linear(32, size)).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    checkpoint = args.checkpoint and args.checkpoint / "last.pt"
    if checkpoint and checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])

    while loader.step < args.steps:
        for micro_batches in loader.steps():  # the rest of the epoch that was loaded, then one epoch after another
            weight, mean = label_weight(micro_batches, device), torch.zeros((), device=device)
            for batch in micro_batches:
                logits = model(batch["input_ids"].to(device, non_blocking=True))
                # Labels are shifted already; those of -100 have no loss.
                labels = batch["labels"].to(device, non_blocking=True)
                loss = weight * cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
                loss.backward()
                mean += loss.detach() / dist.get_world_size()
            optimizer.step()
            optimizer.zero_grad()
            dist.all_reduce(mean)
            if dist.get_rank() == 0:
                print(f"step {loader.step} loss {mean.item():.4f}", flush=True)
            if loader.step == args.steps:
                break

    if checkpoint and dist.get_rank() == 0:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        # The same on every rank, so one saves it, and any number of ranks may go on from it.
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}
        torch.save(state, checkpoint)
    dist.barrier()
    del model  # before the process group that it holds: the two can wait for each other
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
