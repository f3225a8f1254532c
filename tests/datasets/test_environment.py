import pytest
import torch.distributed

from tokenyard.datasets.environment import find_rank
from tokenyard.errors import ConfigError


def test_a_process_alone_is_rank_0_of_1():
    assert find_rank(environ={}) == (0, 1)


def test_the_rank_comes_from_the_environment_that_torchrun_sets():
    assert find_rank(environ={"RANK": "2", "WORLD_SIZE": "4"}) == (2, 4)


def test_what_is_given_counts_more_than_the_environment():
    assert find_rank(1, 2, environ={"RANK": "3", "WORLD_SIZE": "4"}) == (1, 2)


def test_an_initialized_process_group_counts_more_than_the_environment(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert find_rank(environ={"RANK": "3", "WORLD_SIZE": "4"}) == (0, 1)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        ((1, None), {}, "world_size: not given, but rank is; give both"),
        ((None, 2), {}, "rank: not given, but world_size is"),
        ((None, None), {"RANK": "1"}, "world_size: not given, but rank is; .*or as RANK and WORLD_SIZE"),
        ((None, None), {"RANK": "one", "WORLD_SIZE": "2"}, "variable RANK: expected a whole number, found 'one'"),
        ((2, 2), {}, "rank: expected a number from 0 to 1, as world_size is 2, found 2"),
        ((0, 0), {}, "as world_size is 0, found 0"),
    ],
)
def test_half_or_broken_answers_are_refused(arguments, environ, message):
    with pytest.raises(ConfigError, match=message):
        find_rank(*arguments, environ=environ)
