"""Whether a state would load."""

import pytest

from tests.preflight.looked import look, settings, the_line, write_corpora
from tests.runs import RUNS, loaders


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("name", ["windows", "ramp", "mixture", "budget"])
def test_a_state_of_the_run_loads_at_any_number_of_ranks(home, name):
    config = settings(home, **RUNS[name])
    (loader,) = loaders(config)
    state = loader.state_dict(step=7)
    the_line(look(config, ranks=4, state=state), "resume", "pass", match="goes on at step 7, in epoch 0")


def test_a_state_of_other_settings_fails(home):
    (loader,) = loaders(settings(home, order={"seed": 8}))
    the_line(look(settings(home), state=loader.state_dict(step=3)), "resume", "fail", match="seed was 8 and is 7")


def test_a_state_of_another_corpus_fails(home, tmp_path):
    other = write_corpora(tmp_path)
    (loader,) = loaders(settings(home))
    config = settings(other).model_copy(
        update={"data": settings(other).data.model_copy(update={"path": str(other / "code")})}
    )
    the_line(look(config, state=loader.state_dict(step=3)), "resume", "fail", match="the corpora were")


def test_what_is_no_state_fails(home):
    the_line(look(settings(home), state={"step": 3}), "resume", "fail", match="expected what state_dict")


def test_a_state_from_between_two_steps_warns(home):
    config = settings(home, micro_batch_size=2)
    (loader,) = loaders(config)
    batches = iter(loader)
    next(batches)
    report = look(config, state=loader.state_dict())
    the_line(report, "resume", "warn", match="goes on at step 0.*1 micro-batches of that step were given out already")


def test_without_a_state_there_is_no_line(home):
    assert not [line for line in look(settings(home)).lines if line.check == "resume"]
