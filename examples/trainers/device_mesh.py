"""A device mesh, as torchtitan has it: FSDP over some dims, tensor parallelism over another.

    torchrun --nproc-per-node 4 examples/trainers/device_mesh.py --config configs/train-npy.yaml --tp 2

The ranks of one model get the same batches: the loader is given the data-parallel part of the mesh.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from recipe import label_weight, vocab_size
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy

import tokenyard


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="settings as in configs/train-*.yaml")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--checkpoint", type=Path, help="a folder: saved in at the end, gone on from if it is there")
    parser.add_argument("--dp-replicate", type=int, default=1, help="copies of the sharded model")
    parser.add_argument("--tp", type=int, default=1, help="ranks that share each layer")
    args = parser.parse_args()

    has_cuda = torch.cuda.is_available()
    if has_cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if has_cuda else "gloo")
    shard = dist.get_world_size() // (args.dp_replicate * args.tp)
    mesh = init_device_mesh(
        "cuda" if has_cuda else "cpu",
        (args.dp_replicate, shard, args.tp),
        mesh_dim_names=("dp_replicate", "dp_shard", "tp"),
    )
    data_parallel = mesh["dp_replicate", "dp_shard"]

    loader = tokenyard.build_dataloader(args.config, mesh=data_parallel)
    torch.manual_seed(0)
    size = vocab_size(loader)
    model = nn.Sequential(nn.Embedding(size, 32), nn.Linear(32, size)).to(mesh.device_type)
    parallelize_module(model, mesh["tp"], {"1": ColwiseParallel(output_layouts=Replicate())})
    fully_shard(model, mesh=data_parallel)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def state() -> dict[str, Any]:
        weights, moments = get_state_dict(model, optimizer)
        return {"model": weights, "optimizer": moments, "loader": loader}

    if args.checkpoint and args.checkpoint.exists():
        dcp.load(saved := state(), checkpoint_id=args.checkpoint)
        set_state_dict(model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])

    while loader.step < args.steps:
        for micro_batches in loader.steps():
            device = mesh.device_type
            weight, mean = label_weight(micro_batches, device), torch.zeros((), device=device)
            for batch in micro_batches:
                logits = model(batch["input_ids"].to(device, non_blocking=True))
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

    if args.checkpoint:
        dcp.save(state(), checkpoint_id=args.checkpoint)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
