"""Batches handed over through memory that is used again."""

import multiprocessing.resource_sharer
import os
import pickle
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.datasets.handover import Parcel, Receiver, Sender

DTYPES = [torch.int64, torch.int32, torch.bool, torch.uint8, torch.bfloat16]
SHAPES = st.dictionaries(
    st.text(max_size=5), st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3)), max_size=5
)


@pytest.fixture(autouse=True, scope="module")
def _no_thread_is_left() -> Iterator[None]:
    yield
    multiprocessing.resource_sharer.stop(timeout=10)


class Sent(Sender):
    """Sends what has gone from a process to another."""

    def send(self, batch: dict[str, torch.Tensor]) -> Parcel:
        return pickle.loads(ForkingPickler.dumps(super().send(batch)))


def same(found: dict[str, torch.Tensor], batch: dict[str, torch.Tensor]) -> bool:
    return list(found) == list(batch) and all(
        found[name].dtype == tensor.dtype and torch.equal(found[name], tensor) for name, tensor in batch.items()
    )


@given(st.lists(SHAPES, max_size=6), st.integers(1, 3))
def test_tensors_come_back_as_they_were_and_stay_so(batches, num_pieces):
    sender, receiver = Sent(num_pieces), Receiver()
    made = [
        {name: torch.randint(0, 2, shape).to(dtype) for name, (dtype, shape) in shapes.items()} for shapes in batches
    ]
    found = [receiver.receive(sender.send(batch)) for batch in made]
    assert all(map(same, found, made))
    assert all(tensor.is_contiguous() for batch in found for tensor in batch.values())


def test_a_batch_stays_until_as_many_more_were_sent_as_there_are_pieces() -> None:
    sender, receiver = Sent(3), Receiver()
    batches = [{"a": torch.full((5,), number)} for number in range(5)]
    parcels = [sender.send(batch) for batch in batches[:3]]
    assert same(receiver.receive(parcels[0]), batches[0])
    parcels.append(sender.send(batches[3]))
    assert [same(receiver.receive(parcels[i]), batches[i]) for i in (1, 2, 3)] == [True] * 3


def test_memory_is_sent_once_and_again_where_a_batch_is_larger() -> None:
    sender, receiver = Sent(2), Receiver()
    small, large = {"a": torch.arange(10)}, {"a": torch.arange(100_000)}
    sent = []
    for batch in [small, small, small, large, small, large, large]:
        parcel = sender.send(batch)
        assert same(receiver.receive(parcel), batch)
        sent.append(parcel.memory and len(parcel.memory.bytes))
    assert sent == [1 << 16, 1 << 16, None, 1 << 20, None, None, 1 << 20]


def test_tensors_of_a_batch_share_no_memory() -> None:
    batch = {"a": torch.zeros(3, dtype=torch.bool), "b": torch.ones(2), "c": torch.zeros(1)}
    found = Receiver().receive(Sent(1).send(batch))
    assert len({tensor.untyped_storage().data_ptr() for tensor in found.values()}) == 3
    found["a"].fill_(True)
    found["c"].fill_(7)
    assert found["b"].tolist() == [1, 1]


def test_a_system_without_nameless_memory_has_a_file_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.memfd_create")
    batch = {"a": torch.arange(1000)}
    assert same(Receiver().receive(Sent(1).send(batch)), batch)


def test_memory_that_nobody_holds_leaves_no_open_file() -> None:
    held = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        sender, receiver = Sent(2), Receiver()
        for _ in range(3):
            receiver.receive(sender.send({"a": torch.arange(10)}))
            sender.send({"a": torch.arange(10)})  # read, but not taken
    del sender, receiver
    assert len(os.listdir("/proc/self/fd")) <= held + 2  # the socket by which files are sent
