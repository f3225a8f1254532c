"""What is no state, epoch or step is refused with a message, wherever it is handed in; a loader says what it is."""

import numpy as np
import pytest

from tests.runs import BUDGET, OF_ROWS, loaders, settings, write_corpora
from tokenyard.errors import ConfigError

KINDS = {"fixed": {}, "budget": {"sample": OF_ROWS, "order": BUDGET}}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("states"))


@pytest.fixture(params=KINDS)
def loader(home, request):
    (loader,) = loaders(settings(home, **KINDS[request.param]))
    return loader


@pytest.mark.parametrize("state", [None, 3, "a", [], [("version", 1)], {}, {"step": 3}, np.zeros(2)])
def test_what_is_no_state_is_refused_by_whatever_takes_one(loader, state):
    for taker in (loader, loader.sampler, iter(loader.sampler)):
        with pytest.raises(
            ConfigError, match=r"state: expected what state_dict\(\) gave, found .*; load what was saved"
        ):
            taker.load_state_dict(state)
    assert loader.step == 0


@pytest.mark.parametrize(
    "change", [{"step": "3"}, {"segments": None}, {"segments": [3]}, {"order": 5}, {"corpora": None}]
)
def test_a_state_with_wrong_values_is_refused(loader, change):
    with pytest.raises(ConfigError, match="state: "):
        loader.load_state_dict({**loader.state_dict(), **change})


@pytest.mark.parametrize("key", ["corpora", "order", "step", "epoch", "segments"])
def test_a_state_that_lacks_a_key_is_refused(loader, key):
    state = {name: value for name, value in loader.state_dict().items() if name != key}
    with pytest.raises(ConfigError, match=f"state: .*{key}"):
        loader.load_state_dict(state)


def test_an_iteration_refuses_an_end_that_is_no_step(loader):
    iteration = iter(loader.sampler)
    with pytest.raises(ConfigError, match="state: stop_step: expected a whole number from 0 on, or None, found 'x'"):
        iteration.load_state_dict({**iteration.state_dict(), "stop_step": "x"})


@pytest.mark.parametrize("epoch", ["3", -1, 1.5, True, np.int64(2)])
def test_what_is_no_epoch_is_refused(loader, epoch):
    with pytest.raises(ConfigError, match=r"epoch: expected a whole number from 0 on, found .*; pass a plain int"):
        loader.set_epoch(epoch)


@pytest.mark.parametrize(
    ("step", "message"),
    [(-1, "step: expected an int from 0 to .*, found -1"), (1.5, "step: expected an int, found 1.5 of type float")],
)
def test_what_is_no_step_is_refused(loader, step, message):
    with pytest.raises(ConfigError, match=message):
        loader.state_dict(step=step)


def test_a_loader_says_in_a_line_what_it_is_and_where_it_stands(home):
    (_, loader) = loaders(settings(home), 2)
    next(iter(loader))
    assert str(loader) == (
        f"TokenLoader(TokenDataset(Corpus('{home}/web', npy, 90 rows, 1358 tokens), 169 samples, seq_len 8, concat), "
        "rank 1 of 2, global batches of 8, step 1)"
    )
    assert str(loader.sampler) == "RankSampler(rank 1 of 2, global batches of 8, step 1)"
    (mixture,) = loaders(settings(home, mixture=True))
    assert str(mixture).startswith(
        "TokenLoader(MixtureDataset(web, code: 219 samples, seq_len 8, concat), rank 0 of 1, "
    )
    (budget,) = loaders(settings(home, **KINDS["budget"]))
    assert "steps of 4 micro-batches of up to 48 tokens, step 0)" in str(budget)
