"""Run under torchrun: a recipe as it stands, with what its model is given and what it returns written down by rank.

torchrun tests/trainers/observe.py FOLDER RECIPE [ARGUMENTS OF THE RECIPE]
"""

import atexit
import faulthandler
import json
import os
import runpy
import sys
import weakref
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.parallel import DistributedDataParallel
from transformers import GPT2LMHeadModel

#: A rank that hangs says where, in all its threads, before whoever launched it gives up.
_SECONDS = 200

calls = []
models = {}
asking = False


def write_down(module, args, kwargs, output):
    global asking
    if asking or not (isinstance(module, GPT2LMHeadModel | nn.Sequential)):
        return
    models["latest"] = module
    if not isinstance(module, GPT2LMHeadModel):
        calls.append({"input_ids": args[0].tolist(), "logits": output.detach().double().sum().item()})
        return
    given = {name: tensor for name, tensor in kwargs.items() if name in ("input_ids", "attention_mask")}
    num_items = kwargs.get("num_items_in_batch")
    asking = True
    with torch.no_grad():
        own = module(**given, labels=given["input_ids"], num_items_in_batch=num_items).loss
    asking = False
    calls.append(
        {
            "input_ids": given["input_ids"].tolist(),
            "loss": output.loss.item(),
            "own_loss": own.item(),
        }
    )


def refuse_what_may_hang_or_abort():
    """Let a recipe fail that ends its process group while a model of DistributedDataParallel lives, or never.

    A model is the last one then to hold it, and lets go of it with the GIL held, waiting for gloo's thread, which may
    wait for the GIL: about one run in a hundred hung. A group that is never ended lives on after Python, and gloo's
    thread that takes the GIL then aborts the process ("terminate called without an active exception").
    """
    alive = weakref.WeakSet()
    init, destroy = DistributedDataParallel.__init__, dist.destroy_process_group

    def noting(self, *args, **kwargs):
        init(self, *args, **kwargs)
        alive.add(self)

    def checking(*args, **kwargs):
        assert not alive, "the process group was ended before the model that holds it"
        destroy(*args, **kwargs)

    DistributedDataParallel.__init__ = noting
    dist.destroy_process_group = checking
    atexit.register(fail_if_group_is_left)  # runs last of all, so that a trainer may end it at exit too


def fail_if_group_is_left():
    if dist.is_initialized():
        sys.stderr.write("the process group was never ended\n")
        sys.stderr.flush()
        os._exit(1)  # what is raised at exit changes no status


def main():
    folder, recipe, *arguments = sys.argv[1:]
    faulthandler.dump_traceback_later(_SECONDS, exit=True)
    torch.set_num_threads(1)
    refuse_what_may_hang_or_abort()
    register_module_forward_hook(write_down, with_kwargs=True)
    sys.argv = [recipe, *arguments]
    sys.path[0] = str(Path(recipe).parent)
    runpy.run_path(recipe, run_name="__main__")
    # Of what this rank holds: equal on all ranks if gradients went over all of them. (Not where FSDP cuts weights.)
    weights = [parameter.double().sum() for parameter in models["latest"].parameters()]
    weights = None if any(isinstance(weight, DTensor) for weight in weights) else torch.stack(weights).tolist()
    (Path(folder) / f"rank-{os.environ['RANK']}.json").write_text(json.dumps({"calls": calls, "weights": weights}))


if __name__ == "__main__":
    main()
