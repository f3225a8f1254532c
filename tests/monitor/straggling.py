"""Run by two processes: steps that end in a collective, and one rank whose data come late or which computes longer.

python straggling.py FOLDER CORPUS KIND RANK PORT
"""

import itertools
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import tokenyard
from tests.monitor.runs import in_python, settings


def main():
    folder, corpus, kind, rank, port = sys.argv[1:]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=int(rank), world_size=2)
    torch.set_num_threads(1)
    is_late = rank == "1"
    transform = in_python(3) if is_late and kind == "data" else None
    loader = tokenyard.build_dataloader(settings(corpus, batch=16, num_threads=1), transform=transform)
    step_seconds = 0.03 if is_late and kind == "compute" else 0.002
    with tokenyard.Monitor(loader, every_seconds=0.8, jsonl=Path(folder) / "m.jsonl", quiet=True) as monitor:
        for _ in (batch for _ in itertools.count() for batch in monitor):
            time.sleep(step_seconds)
            # Rank 0 goes on until it has seen the other one.
            done = torch.tensor(len(monitor.reports) >= 3 and (rank != "0" or len(monitor.reports[-1].ranks) == 2))
            if kind == "data":
                dist.all_reduce(done, dist.ReduceOp.MIN)
            if done:
                break
        found = [report.verdict and [report.verdict.kind, str(report.verdict)] for report in monitor.reports]
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
