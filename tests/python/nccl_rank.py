"""A rank that tries each operation on arrays: nccl_rank.py. Its last line says "right" if all was as it should be."""

from __future__ import annotations

import ctypes
import os
import time

import numpy as np

from harmonaize import nccl

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def raised(kind: type[Exception], call: object, *arguments: object) -> str:
    """Returns the sentence of the error that the call has to raise."""
    assert callable(call)
    try:
        call(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__} came")


def operations(one: nccl.Communicator) -> None:
    for name in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"):
        data = np.arange(5, dtype=name) + RANK
        out = np.zeros(5, name)
        one.all_reduce(data, out)
        assert out.tolist() == [SIZE * at + SIZE * (SIZE - 1) // 2 for at in range(5)], out
        one.all_reduce(data, op=nccl.Operator.MAX)
        assert data.tolist() == [at + SIZE - 1 for at in range(5)]
    gathered = np.zeros((SIZE, 2), np.int32)
    one.all_gather(np.array([RANK, -RANK], np.int32), gathered)
    assert gathered.tolist() == [[rank, -rank] for rank in range(SIZE)]
    part = np.zeros(2)
    one.reduce_scatter(np.arange(2.0 * SIZE), part)
    assert part.tolist() == [SIZE * 2.0 * RANK, SIZE * (2.0 * RANK + 1)]
    word = np.full(3, RANK)
    one.broadcast(word, 1)
    assert word.tolist() == [1, 1, 1]
    array = (ctypes.c_int64 * 2)(RANK, 1)
    one.all_reduce(array)
    assert list(array) == [SIZE * (SIZE - 1) // 2, SIZE]
    one.barrier()


def messages(one: nccl.Communicator) -> None:
    if RANK == 0:
        one.send(np.array([7.0]), 1)
    elif RANK == 1:
        one.recv(got := np.zeros(1), 0)
        assert got.tolist() == [7.0]


def tensors(one: nccl.Communicator) -> None:
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return
    tensor = torch.full((3,), float(RANK), dtype=torch.bfloat16)
    one.all_reduce(tensor)
    assert tensor.tolist() == [SIZE * (SIZE - 1) / 2] * 3
    assert "one after the other" in raised(ValueError, one.all_reduce, torch.zeros(4, 4).t())


def refusals(one: nccl.Communicator) -> None:
    assert "no type for elements of complex128" in raised(TypeError, one.all_reduce, np.zeros(2, complex))
    assert "byte order" in raised(TypeError, one.all_reduce, np.zeros(2, ">f8"))
    assert "one after the other" in raised(ValueError, one.all_reduce, np.zeros((4, 4)).T)
    assert "a list is no NumPy array" in raised(TypeError, one.all_reduce, [1.0])
    fixed = np.zeros(2)
    fixed.flags.writeable = False
    assert "may not be written" in raised(ValueError, one.all_reduce, fixed)
    assert "a block for each rank" in raised(ValueError, one.all_gather, np.zeros(2), np.zeros(2))


def disagreements(one: nccl.Communicator) -> None:
    said = raised(nccl.UsageError, one.all_reduce, np.zeros(2 + RANK))
    assert "rank 0 asked for AllReduce(2 x float64, sum)" in said, said


def other_members(one: nccl.Communicator) -> None:
    grown = one.shrink([SIZE - 1], "two") if RANK < SIZE - 1 else None
    if grown is not None:
        assert (grown.rank, grown.size, grown.name) == (RANK, SIZE - 1, "two")
        grown.destroy()
        assert "was ended" in raised(ValueError, grown.barrier)


def losses(one: nccl.Communicator) -> None:
    if RANK == 1:
        os._exit(0)
    said = raised(nccl.RemoteError, one.barrier)
    assert "rank 1" in said, said
    assert one.async_error() == nccl.Result.REMOTE_ERROR
    assert one.lost_ranks() == {1}
    rest = one.shrink(one.lost_ranks(), abort=True)
    one.abort()
    one.abort()
    rest.all_reduce(ones := np.ones(1))
    assert ones.tolist() == [SIZE - 1]
    rest.destroy()


def main() -> None:
    os.environ["NCCL_COMM_ID"] = f"nccl-test-{os.environ['MASTER_PORT']}:1"
    forming = nccl.Forming(nccl.UniqueId.new(), SIZE, RANK, "forming")
    while (formed := forming.formed()) is None:
        time.sleep(0.01)
    formed.barrier()
    disagreements(formed)
    formed.destroy()
    one = nccl.Communicator.init(nccl.UniqueId.new(), SIZE, RANK, "world")
    assert (one.rank, one.size) == (RANK, SIZE)
    for part in (operations, messages, tensors, refusals, other_members, losses):
        part(one)
    print("right")


if __name__ == "__main__":
    main()
