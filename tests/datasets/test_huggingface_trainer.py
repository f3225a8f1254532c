"""What LoaderMixin refuses before it trains. How it trains is tested with the recipes."""

import json

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from tests.corpora import write_corpus
from tokenyard.datasets.huggingface.trainer import LoaderMixin, _check_processes, arguments_for
from tokenyard.datasets.loader import build_dataloader
from tokenyard.errors import ConfigError


class LoaderTrainer(LoaderMixin, Trainer):
    pass


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "c", [[i % 50 for i in range(200)]], vocab_size=50)
    return tmp_path / "c"


def loader_of(path, labels="same", world_size=1, mesh=None):
    return build_dataloader(
        {
            "data": {"path": str(path), "sample": {"seq_len": 8, "labels": labels}},
            "order": {"global_batch_size": 8},
            "loader": {"micro_batch_size": 2},
        },
        *((0, world_size) if mesh is None else ()),
        mesh=mesh,
    )


def trainer_of(loader, tmp_path, eval_dataset=None, **arguments):
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_positions=8, n_embd=8, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None)
    )
    common = {"output_dir": str(tmp_path / "out"), "report_to": "none", "use_cpu": True, "disable_tqdm": True}
    arguments = TrainingArguments(**{**arguments_for(loader), **common, **arguments})
    return LoaderTrainer(loader=loader, model=model, args=arguments, eval_dataset=eval_dataset)


def test_a_loader_settles_the_arguments_that_are_about_batches(corpus):
    assert arguments_for(loader_of(corpus)) == {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "ignore_data_skip": True,
    }


@pytest.mark.parametrize(
    ("argument", "value", "expected"),
    [
        ("per_device_train_batch_size", 8, 2),
        ("gradient_accumulation_steps", 1, 4),
        ("ignore_data_skip", False, True),
    ],
)
def test_arguments_that_do_not_fit_are_refused(corpus, tmp_path, argument, value, expected):
    with pytest.raises(ConfigError, match=rf"{argument}: expected {expected}, as the loader has it, found {value}; "):
        trainer_of(loader_of(corpus), tmp_path, **{argument: value})


def test_shifted_labels_are_refused(corpus, tmp_path):
    with pytest.raises(ConfigError, match=r"set data\.sample\.labels to same"):
        trainer_of(loader_of(corpus, "shifted"), tmp_path)
    with pytest.raises(ConfigError, match=r"set data\.sample\.labels to same"):
        trainer_of(loader_of(corpus), tmp_path, eval_dataset=loader_of(corpus, "shifted").dataset)
    metrics = trainer_of(loader_of(corpus), tmp_path, eval_dataset=loader_of(corpus).dataset).evaluate()
    assert metrics["eval_loss"] > 0


def test_processes_that_would_train_on_their_own_are_refused(corpus, tmp_path):
    with pytest.raises(ConfigError, match=r"one of 2 ranks, but Trainer trains in 1 process.*use_cpu=True"):
        trainer_of(loader_of(corpus, world_size=2), tmp_path)


def test_processes_that_would_train_on_the_same_batches_are_refused(corpus):
    with pytest.raises(ConfigError, match=r"one of 2 ranks, but Trainer trains in 4 process.*several would train on"):
        _check_processes(loader_of(corpus, world_size=2), 4)
    _check_processes(loader_of(corpus, world_size=2), 2)


def test_processes_of_a_mesh_may_share_a_rank(corpus, tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        loader = loader_of(corpus, mesh=init_device_mesh("cpu", (1,), mesh_dim_names=("dp",)))
    finally:
        torch.distributed.destroy_process_group()
    _check_processes(loader, 2)


def test_a_checkpoint_without_a_state_of_a_loader_is_refused(corpus, tmp_path):
    trainer_of(loader_of(corpus), tmp_path, max_steps=1, save_steps=1).train()
    (checkpoint,) = (tmp_path / "out").iterdir()
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    saved = state["stateful_callbacks"].pop("_LoaderState")
    assert saved["attributes"]["saved"]["step"] == 1
    (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    with pytest.raises(ConfigError, match="the checkpoint of step 1 holds no state of a loader"):
        trainer_of(loader_of(corpus), tmp_path, max_steps=2).train(resume_from_checkpoint=str(checkpoint))


def test_callbacks_that_are_restored_bring_no_second_state(corpus, tmp_path):
    trainer_of(loader_of(corpus), tmp_path, max_steps=1, save_steps=1).train()
    (checkpoint,) = (tmp_path / "out").iterdir()
    loader = loader_of(corpus)
    arguments = {"max_steps": 2, "save_steps": 1, "restore_callback_states_from_checkpoint": True}
    trainer_of(loader, tmp_path, **arguments).train(resume_from_checkpoint=str(checkpoint))
    assert loader.step == 2
    state = json.loads((tmp_path / "out" / "checkpoint-2" / "trainer_state.json").read_text())
    assert state["stateful_callbacks"]["_LoaderState"]["attributes"]["saved"]["step"] == 2


def test_steps_that_are_not_those_of_the_loader_are_refused(corpus, tmp_path):
    loader = loader_of(corpus)
    trainer = trainer_of(loader, tmp_path, max_steps=2)
    trainer.args.gradient_accumulation_steps = 2
    with pytest.raises(ConfigError, match="Trainer has done 1 steps, but the loader's batches were those of 0"):
        trainer.train()
