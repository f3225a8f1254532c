"""Each trainer, the real one, in two processes: the global order once, and the labels that its model means.

Where it stopped, it goes on as if it hadn't: the same samples, the same losses, to the last bit.
"""

import pytest

from examples.trainers.recipe import check_micro_batches
from tests.trainers.recipes import Run
from tokenyard.config import load_config
from tokenyard.datasets.loader import build_dataloader

#: Of epochs of 5 steps: in the middle of the second, and, among the long tests, where the first ends.
STOPS = [7, pytest.param(5, marks=pytest.mark.soak)]
NUM_STEPS = 12
FOR_HUGGING_FACE = ["accelerate_.py", "lightning_.py", "hf_trainer.py"]
PLAIN = ["ddp.py", "device_mesh.py"]


@pytest.fixture(scope="module", params=FOR_HUGGING_FACE + PLAIN)
def whole(request, tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("whole"), "same" if request.param in FOR_HUGGING_FACE else "shifted")
    return request.param, run, run.train(request.param, "--steps", NUM_STEPS)


def test_ranks_train_on_the_global_order_once(whole):
    _, run, calls = whole
    assert run.global_batches(calls) == run.expected(0, NUM_STEPS)


@pytest.mark.parametrize("whole", FOR_HUGGING_FACE, indirect=True)
def test_the_loss_is_what_the_model_says_itself_of_the_tokens_alone(whole):
    _, _, calls = whole
    assert all(call["loss"] == call["own_loss"] for rank in calls for call in rank)


@pytest.mark.parametrize("stop", STOPS)
def test_a_run_that_stopped_goes_on_as_if_it_had_not(whole, tmp_path, stop):
    recipe, run, calls = whole
    begun = run.train(recipe, "--steps", stop, "--checkpoint", tmp_path / "saved")
    gone_on = run.train(recipe, "--steps", NUM_STEPS, "--checkpoint", tmp_path / "saved")
    assert run.global_batches(begun) == run.expected(0, stop)
    assert run.global_batches(gone_on) == run.expected(stop, NUM_STEPS)
    assert [first + rest for first, rest in zip(begun, gone_on, strict=True)] == calls


@pytest.mark.parametrize("recipe", [*PLAIN, "hf_trainer.py"])
def test_labels_count_alike_whatever_rank_and_micro_batch_they_are_in(tmp_path, recipe):
    labels = "same" if recipe in FOR_HUGGING_FACE else "shifted"
    run = Run(tmp_path, labels)
    run.pad(labels, micro_batch=8)
    (whole_batches,) = run.train(recipe, "--steps", 4, num_ranks=1)
    run.pad(labels, micro_batch=2)
    ranks = run.train(recipe, "--steps", 4)
    told = "loss" if labels == "same" else "logits"
    for step, expected in enumerate(whole_batches):
        found = [call for rank in ranks for call in rank[step * 2 : (step + 1) * 2]]
        assert [row for call in found for row in call["input_ids"]] == expected["input_ids"]
        assert sum(call[told] for call in found) == pytest.approx(expected[told], rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("recipe", ["accelerate_.py", "lightning_.py"])
def test_padding_is_refused_where_the_mean_of_a_micro_batch_is_taken(tmp_path, recipe):
    run = Run(tmp_path, "same")
    run.pad("same")
    with pytest.raises(AssertionError, match=r"order\.last_batch: pad makes micro-batches of padding alone"):
        run.train(recipe, "--steps", 4, num_ranks=1)


def test_a_ramp_is_refused_where_equally_many_micro_batches_are_taken_at_each_step(tmp_path):
    config = load_config(Run(tmp_path, "same").config).model_dump(exclude_defaults=True)
    check_micro_batches(build_dataloader(config, 0, 1), 5)
    config["order"]["segments"] = [{"from_step": 3, "global_batch_size": 16}]
    loader = build_dataloader(config, 0, 1)
    check_micro_batches(loader, 3)
    with pytest.raises(SystemExit, match=r"order\.segments: they change the micro-batches of a step"):
        check_micro_batches(loader, 4)


def test_the_ranks_of_one_model_get_the_same_batches(tmp_path):
    run = Run(tmp_path, "shifted")
    calls = run.train("device_mesh.py", "--steps", 6, "--tp", 2, num_ranks=4)
    assert calls[0] == calls[1]
    assert calls[2] == calls[3]
    assert run.global_batches(calls[::2]) == run.expected(0, 6)


def test_all_data_parallel_dims_of_a_mesh_split_the_batch(tmp_path):
    run = Run(tmp_path, "shifted")
    calls = run.train("device_mesh.py", "--steps", 6, "--dp-replicate", 2)
    assert run.global_batches(calls) == run.expected(0, 6)
