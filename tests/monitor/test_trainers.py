"""Trainers iterate over the loader themselves, and the monitor sees it."""

import time

import lightning
import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import tokenyard
from tests.corpora import write_corpus
from tests.monitor.runs import settings
from tokenyard.datasets.huggingface import inputs_for
from tokenyard.datasets.huggingface.trainer import LoaderMixin, arguments_for

STEPS, SEQ_LEN, VOCAB_SIZE = 6, 16, 300
#: How long each step computes at least.
STEP_MS = 20


@pytest.fixture
def loader(tmp_path):
    write_corpus(tmp_path / "c", np.random.default_rng(0).integers(0, VOCAB_SIZE, (64, SEQ_LEN)).tolist())
    return tokenyard.build_dataloader(settings(tmp_path / "c", batch=2, sample={"labels": "same"}), 0, 1)


def model():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=VOCAB_SIZE, n_positions=SEQ_LEN, n_embd=4, n_layer=1, n_head=1)
    made = GPT2LMHeadModel(config)
    made.register_forward_pre_hook(lambda *_: time.sleep(STEP_MS / 1e3))
    return made


class LoaderTrainer(LoaderMixin, Trainer):
    pass


def test_hugging_faces_trainer_is_seen(loader, tmp_path):
    args = TrainingArguments(
        **arguments_for(loader),
        output_dir=str(tmp_path / "out"),
        use_cpu=True,
        max_steps=STEPS,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    with tokenyard.Monitor(loader, every_seconds=1000, quiet=True) as monitor:
        LoaderTrainer(loader=loader, model=model(), args=args).train()
    (report,) = monitor.reports
    # Trainer leaves the loop in the last step, whose end nobody sees.
    assert STEPS - 1 <= report.figures.num_steps <= STEPS
    assert report.figures.compute_ms >= STEP_MS


class Module(lightning.LightningModule):
    def __init__(self, loader):
        super().__init__()
        self.model = model()
        self.inputs = inputs_for(self.model, loader)

    def training_step(self, batch, index):
        return self.model(**self.inputs(batch)).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


@pytest.mark.filterwarnings("ignore")  # Lightning's own
def test_lightnings_trainer_is_seen(loader):
    trainer = lightning.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with tokenyard.Monitor(loader, every_seconds=1000, quiet=True) as monitor:
        trainer.fit(Module(loader), loader)
    (report,) = monitor.reports
    assert STEPS - 2 <= report.figures.num_steps <= STEPS
    assert report.figures.compute_ms >= STEP_MS
