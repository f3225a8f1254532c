import gc
import threading

import numpy as np
import pytest
import torch

from tokenyard.datasets.memory import Recycler

SHAPE = (64, 2048)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_again_when_the_last_reference_is_gone():
    recycler = Recycler()
    array = recycler.empty(SHAPE)
    first = address(array)
    del array
    assert address(recycler.empty(SHAPE)) == first
    assert address(recycler.empty((32, 4096))) == first


@pytest.mark.parametrize(
    "hold",
    [
        lambda array: array[3:, 7:],
        lambda array: array.reshape(-1).view(np.uint8),
        lambda array: torch.from_numpy(array),
        lambda array: torch.from_numpy(array)[5].unbind(0)[0],
        lambda array: torch.from_numpy(array).untyped_storage(),
        lambda array: torch.from_numpy(array).numpy(),
        lambda array: torch.from_dlpack(array),
        lambda array: memoryview(array),
    ],
    ids=["slice", "view", "tensor", "scalar", "storage", "numpy", "dlpack", "memoryview"],
)
def test_memory_that_somebody_still_sees_is_not_given_out(hold):
    recycler = Recycler()
    array = recycler.empty(SHAPE)
    first = address(array)
    held = hold(array)
    del array
    gc.collect()
    others = [recycler.empty(SHAPE) for _ in range(3)]
    assert first not in map(address, others)
    del held
    gc.collect()
    assert address(recycler.empty(SHAPE)) == first


def test_small_and_huge_arrays_are_left_to_the_c_library():
    recycler = Recycler()
    for shape in ((2, 3), (0, 5), (1 << 12, 1 << 12)):
        array = recycler.empty(shape)
        assert (array.shape, array.dtype, array.flags.owndata) == (shape, np.int64, True)


def test_what_is_kept_free_is_bounded():
    recycler = Recycler()
    held = [recycler.empty(SHAPE) for _ in range(100)]
    del held
    assert len({address(array) for array in [recycler.empty(SHAPE) for _ in range(3)]}) == 3
    assert sum(memory.nbytes for free in recycler._free.values() for memory in free) <= 64 << 20
    for width in range(20_000, 20_050):
        recycler.empty((2, width))
    assert len(recycler._free) <= 4


def test_threads_never_get_the_same_memory_at_once():
    recycler = Recycler()
    wrong = []

    def work(mark):
        for _ in range(300):
            array = recycler.empty((8, 2048))
            array[:] = mark
            tensor = torch.from_numpy(array)
            del array
            if not (tensor == mark).all():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
