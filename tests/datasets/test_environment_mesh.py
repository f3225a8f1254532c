"""Ranks in a device mesh. No process talks to another: the group is torch's fake one."""

import pytest
import torch.distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.corpora import write_corpus
from tokenyard.datasets.environment import find_rank
from tokenyard.datasets.loader import build_dataloader
from tokenyard.errors import ConfigError

NAMES = ("dp_replicate", "dp_shard", "tp")


@pytest.fixture(params=range(8))
def rank(request):
    torch.distributed.init_process_group("fake", rank=request.param, world_size=8, store=FakeStore())
    yield request.param
    torch.distributed.destroy_process_group()


def test_data_parallel_dims_are_counted_row_by_row(rank):
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=NAMES)
    assert find_rank(mesh=mesh["dp_replicate", "dp_shard"]) == (rank // 2, 4)


def test_one_dim_is_taken_by_any_name_that_is_not_of_model_parallelism(rank):
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("workers", "tp"))
    assert find_rank(mesh=mesh["workers"]) == (rank // 2, 4)
    assert find_rank(mesh=init_device_mesh("cpu", (8,))) == (rank, 8)


@pytest.mark.parametrize("rank", [3], indirect=True)
@pytest.mark.parametrize("shared", ["tp", "pp", "cp", "ep", "dp_shard_cp", "tensor_parallel"])
def test_dims_that_share_a_model_are_refused_with_the_part_to_hand_in(rank, shared):
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", shared))
    with pytest.raises(ConfigError, match=rf"mesh: expected data-parallel dims only, .*{shared}.*such as mesh\['dp'\]"):
        find_rank(mesh=mesh)
    with pytest.raises(ConfigError, match="need the same batches"):
        find_rank(mesh=mesh[shared])


@pytest.mark.parametrize("rank", [3], indirect=True)
def test_several_dims_must_say_that_they_are_data_parallel(rank):
    with pytest.raises(ConfigError, match=r"found dims without names of shape \(4, 2\)"):
        find_rank(mesh=init_device_mesh("cpu", (4, 2)))
    with pytest.raises(ConfigError, match=r"such as mesh\['dp_replicate', 'dp_shard'\]"):
        find_rank(mesh=init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=(*NAMES[:2], "workers")))


@pytest.mark.parametrize("rank", [3], indirect=True)
def test_a_mesh_tells_the_rank_alone(rank):
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("dp",))
    for given in ({"rank": 0}, {"world_size": 8}):
        with pytest.raises(ConfigError, match="mesh: given beside rank or world_size"):
            find_rank(**given, mesh=mesh)


@pytest.mark.parametrize("rank", [3], indirect=True)
def test_a_process_outside_the_mesh_has_no_part(rank):
    with pytest.raises(ConfigError, match="doesn't hold this process, rank 3; build the loader only where it is used"):
        find_rank(mesh=torch.distributed.device_mesh.DeviceMesh("cpu", [0, 1], mesh_dim_names=("dp",)))


@pytest.mark.parametrize("rank", [5], indirect=True)
def test_a_loader_takes_the_part_that_the_mesh_says(rank, tmp_path):
    write_corpus(tmp_path / "c", [list(range(100))])
    settings = {
        "data": {"path": str(tmp_path / "c"), "sample": {"seq_len": 4}},
        "order": {"global_batch_size": 8, "shuffle": "none"},
    }
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp"))
    (first, *_) = build_dataloader(settings, mesh=mesh["dp"])
    assert first["sample_ids"].tolist() == [4, 5]
