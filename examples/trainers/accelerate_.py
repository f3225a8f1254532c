"""Accelerate: the model and the optimizer are prepared, the loader is not, since it has this rank's part already.

torchrun --nproc-per-node 2 examples/trainers/accelerate_.py --config examples/trainers/train.yaml
"""

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from recipe import arguments, check_micro_batches, tiny_gpt2

import tokenyard
from tokenyard.datasets.huggingface import inputs_for


def main() -> None:
    args = arguments(__doc__)
    # Said, since Accelerate trains each process on its own otherwise.
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    loader = tokenyard.build_dataloader(args.config, accelerator.process_index, accelerator.num_processes)
    check_micro_batches(loader, args.steps)
    accelerator.gradient_accumulation_steps = loader.micro_batches_per_step
    torch.manual_seed(0)
    model = tiny_gpt2(loader)
    inputs = inputs_for(model, loader)  # refuses labels that the model would shift once more
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2))
    if args.checkpoint:
        accelerator.register_for_checkpointing(loader)
        if args.checkpoint.exists():
            accelerator.load_state(args.checkpoint)

    while loader.step < args.steps:
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**inputs(send_to_device(batch, accelerator.device, non_blocking=True))).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                accelerator.print(f"step {loader.step} loss {loss.item():.4f}", flush=True)
                if loader.step == args.steps:
                    break

    if args.checkpoint:
        accelerator.save_state(args.checkpoint)
    # The model first, since gloo and the last one that holds the process group can wait for each other.
    accelerator.free_memory(model, optimizer)
    del model, optimizer
    accelerator.end_training()


if __name__ == "__main__":
    main()
