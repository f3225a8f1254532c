"""A Trainer that takes its batches from a loader; needs transformers."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.huggingface.inputs import check_labels, inputs_for
from tokenyard.datasets.loader import TokenLoader
from tokenyard.errors import ConfigError


def arguments_for(loader: TokenLoader) -> dict[str, Any]:
    """Return what a loader settles of `TrainingArguments(**arguments_for(loader), ...)`."""
    micro_batch = loader.sampler.batches.of_steps(loader.step, 1)[0][0]
    return {
        "per_device_train_batch_size": len(micro_batch.sample_ids),
        "gradient_accumulation_steps": loader.micro_batches_per_step,
        # The loader goes to its place by itself; Trainer would read all batches up to there, without the loader.
        "ignore_data_skip": True,
    }


class LoaderMixin:
    """For a Trainer that trains on a loader: `class MyTrainer(LoaderMixin, Trainer)`, made with `loader=`.

    The loader is used as it is, not dealt to processes once more. Checkpoints hold its state, in `trainer_state.json`,
    and `train(resume_from_checkpoint=...)` goes on with the batch after the last one trained on. `training_step` is
    given whole batches, and models what they take of them.

    Args:
        loader: in place of `train_dataset`.
        **kwargs: what the Trainer takes, by name; `args` as `arguments_for` says.

    Raises:
        ConfigError: labels are shifted, and the model would shift them once more; an argument, or the number of
            processes, doesn't fit the loader.
    """

    def __init__(self, *, loader: TokenLoader, **kwargs: Any) -> None:
        args = kwargs.get("args")
        for name, expected in arguments_for(loader).items():
            found = getattr(args, name, None)
            if found != expected:
                raise ConfigError(
                    f"TrainingArguments.{name}: expected {expected}, as the loader has it, found {found}; pass "
                    "args=TrainingArguments(**arguments_for(loader), ...)"
                )
        self.loader = loader
        super().__init__(**kwargs)
        _check_processes(loader, self.args.world_size)  # type: ignore[attr-defined]  # Trainer's
        for source in (loader, kwargs.get("eval_dataset")):
            if isinstance(source, TokenLoader | TokenDataset):
                check_labels(source, self.model)  # type: ignore[attr-defined]
        self.add_callback(_LoaderState())  # type: ignore[attr-defined]

    def get_train_dataloader(self) -> TokenLoader:
        """Return the loader; Trainer calls this."""
        return self.loader

    def training_step(self, model: nn.Module, inputs: Mapping[str, Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """Train on what the model takes of a batch; Trainer calls this."""
        taken = inputs_for(model, self.loader)(inputs)
        return super().training_step(model, taken, *args, **kwargs)  # type: ignore[misc,no-any-return]


def _check_processes(loader: TokenLoader, num_processes: int) -> None:
    ranks = loader.sampler.batches.world_size
    if num_processes == ranks or (loader.of_mesh and num_processes % ranks == 0):
        return
    way_out = (
        "several would train on the same batches; build the loader after torch.distributed is initialized, without a "
        'rank, or where processes share a model, with mesh=mesh["dp"]'
        if num_processes % ranks == 0
        else "the others' part would be lost; start it by torchrun, and without a GPU set "
        "TrainingArguments(use_cpu=True), or else each process trains on its own"
    )
    raise ConfigError(
        f"world_size: the loader has the part of one of {ranks} ranks, but Trainer trains in {num_processes} "
        f"process(es), so {way_out}"
    )


class _LoaderState(TrainerCallback, ExportableState):
    """Puts the loader's state beside Trainer's own, and brings it back. The step is Trainer's."""

    def __init__(self) -> None:
        self._loader: TokenLoader | None = None
        self._step = 0
        self.saved: dict[str, Any] | None = None

    def state(self) -> dict[str, Any]:
        saved = self._loader.state_dict(step=self._step) if self._loader else None
        return {"args": {}, "attributes": {"saved": saved}}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._loader, self._step = kwargs["train_dataloader"], state.global_step
        if not self._step:
            return
        # Trainer makes the list of callbacks a dict, name -> what `state` gave.
        callbacks: Any = state.stateful_callbacks
        saved = callbacks.get(type(self).__name__)
        if saved is None:
            raise ConfigError(
                f"resume_from_checkpoint: the checkpoint of step {self._step} holds no state of a loader, since it was "
                "made without LoaderMixin; to begin the data anew, load only its weights into the model"
            )
        self._loader.load_state_dict(saved["attributes"]["saved"])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._step = state.global_step
        if self._loader is not None and self._loader.step != self._step:
            raise ConfigError(
                f"TrainingArguments.gradient_accumulation_steps: Trainer has done {self._step} steps, but the loader's "
                f"batches were those of {self._loader.step}; Trainer takes equally many micro-batches at each step, so "
                "give it an order without segments of other batch sizes"
            )
