"""Run by two processes: steps that end in a collective, and one rank whose data come late or which computes longer.

python straggling.py FOLDER CORPUS KIND RANK
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

#: Where rank 0 never tells of the other one.
MOST_WINDOWS = 60


def store_of(port_file, rank):
    """A store whose port is free for certain: the one that rank 0 has bound, and has told in a file."""
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False)
        port_file.with_suffix(".new").write_text(str(store.port))
        port_file.with_suffix(".new").rename(port_file)
        return store
    while not port_file.exists():
        time.sleep(0.01)
    return dist.TCPStore("127.0.0.1", int(port_file.read_text()), 2, is_master=False)


def tells_of_rank_1(monitor, kind):
    words = {"data": "rank 1 waits", "compute": "rank 1 computes"}[kind]
    return any(report.verdict is not None and words in str(report.verdict) for report in monitor.reports)


def main():
    folder, corpus, kind, rank = sys.argv[1:]
    dist.init_process_group("gloo", store=store_of(Path(folder) / "port", int(rank)), rank=int(rank), world_size=2)
    torch.set_num_threads(1)
    is_late = rank == "1"
    # Some 100 ms a step, where a collective by itself may take 25.
    transform = in_python(12) if is_late and kind == "data" else None
    loader = tokenyard.build_dataloader(settings(corpus, batch=16, num_threads=1), transform=transform)
    step_seconds = 0.03 if is_late and kind == "compute" else 0.002
    with tokenyard.Monitor(loader, every_seconds=0.8, jsonl=Path(folder) / "m.jsonl", quiet=True) as monitor:
        for _ in (batch for _ in itertools.count() for batch in monitor):
            time.sleep(step_seconds)
            # Rank 0 goes on until it has told of the other one, and the other one until then.
            is_over = len(monitor.reports) >= (3 if rank == "0" and tells_of_rank_1(monitor, kind) else MOST_WINDOWS)
            if rank == "0" and is_over:
                (Path(folder) / "told").touch()
            done = torch.tensor(is_over or (is_late and (Path(folder) / "told").exists()))
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
