"""A rank that saves or loads with PyTorch: torch_checkpoint_rank.py ACT FOLDER. FOLDER "-": in memory alone.

Its group is of the backend gloo. Its last line says "right" if all was as it should be.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import typing
import warnings

import torch
import torch.distributed as dist

from harmonaize import checkpoint
from harmonaize.checkpoint.torch import communicator_of_group

try:
    from harmonaize.checkpoint.torch import StorageReader, StorageWriter
    from harmonaize.checkpoint.torch.compatibility import part

    HAS_DCP = True
except ImportError:
    HAS_DCP = False

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HAS_DTENSOR = importlib.util.find_spec("torch.distributed.tensor") is not None
saver: typing.Any = part("state_dict_saver") if HAS_DCP else None
loader: typing.Any = part("state_dict_loader") if HAS_DCP else None


class Odd:
    """A value that only torch.load reads."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        """Compares the numbers."""
        return isinstance(other, Odd) and other.number == self.number

    def __hash__(self) -> int:
        """Hashes the number."""
        return hash(self.number)


def say(*words: object) -> None:
    print(*words, flush=True)


def full(name: str, shape: tuple[int, ...], dtype: torch.dtype, step: int) -> torch.Tensor:
    """Returns a tensor of the model, whose elements follow from its name and the step."""
    count = int(torch.Size(shape).numel())
    return ((torch.arange(count) * 7 + sum(name.encode()) + 1000 * step) % 251).reshape(shape).to(dtype)


def plain_state(step: int) -> dict[str, typing.Any]:
    """Returns what all ranks have, as of a model and an optimizer under DDP."""
    return {
        "w": full("w", (300, 400), torch.float32, step),
        "half": full("h", (300, 301), torch.bfloat16, step),
        "turned": full("t", (20, 30), torch.float64, step).t(),
        "scalar": full("s", (), torch.int64, step),
        "empty": torch.zeros(0, 4),
        "flag": full("f", (7,), torch.int8, step) > 100,
    }


def nested_state(step: int) -> dict[str, typing.Any]:
    state = {
        "model": plain_state(step),
        "optimizer": {
            "state": {"0": {"step": torch.tensor(float(step)), "exp_avg": full("e", (300, 400), torch.float32, step)}},
            "param_groups": [{"lr": 0.1 * step, "betas": (0.9, 0.999), "params": [0, 1]}],
        },
        "step": step,
        "odd": Odd(step),
        "raw": b"raw %d" % step,
    }
    if HAS_DTENSOR:
        state["sharded"] = dtensors(step)
    return state


def dtensors(step: int) -> dict[str, typing.Any]:
    """Returns DTensors over all ranks: by rows, by columns, replicated, and of fewer rows than ranks."""
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: PLC0415

    mesh = init_device_mesh("cpu", (SIZE,))
    made = {
        "rows": distribute_tensor(full("rows", (50, 30), torch.float32, step), mesh, [Shard(0)]),
        "columns": distribute_tensor(full("columns", (30, 50), torch.bfloat16, step), mesh, [Shard(1)]),
        "same": distribute_tensor(full("same", (200, 300), torch.float32, step), mesh, [Replicate()]),
        "few": distribute_tensor(full("few", (2, 3), torch.float32, step), mesh, [Shard(0)]),
    }
    if SIZE % 2 == 0:
        grid = init_device_mesh("cpu", (SIZE // 2, 2))
        made["grid"] = distribute_tensor(full("grid", (64, 10), torch.float32, step), grid, [Replicate(), Shard(0)])
    return made


def zeroed(value: typing.Any) -> typing.Any:
    if isinstance(value, dict):
        return {key: zeroed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [zeroed(one) for one in value]
    return torch.zeros_like(value) if isinstance(value, torch.Tensor) else None


def assert_same(found: typing.Any, wanted: typing.Any, where: str = "") -> None:
    if isinstance(wanted, dict):
        assert set(found) == set(wanted), (where, set(found) ^ set(wanted))
        for key, one in wanted.items():
            assert_same(found[key], one, f"{where}.{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for place, one in enumerate(wanted):
            assert_same(found[place], one, f"{where}.{place}")
    elif isinstance(wanted, torch.Tensor):
        if hasattr(wanted, "to_local"):
            found, wanted = found.to_local(), wanted.to_local()
        assert found.dtype == wanted.dtype, where
        assert torch.equal(found, wanted), (where, found, wanted)
    else:
        assert found == wanted, (where, found, wanted)


def without_grid(state: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """Returns the state without what only even numbers of ranks save."""
    if "sharded" in state:
        state["sharded"].pop("grid", None)
    return state


def save(folder: str | None) -> None:
    """Saves by PyTorch's call, and waits to be killed."""
    one = StorageWriter(folder)
    for step in (3, 4):
        one.step = step
        saver.save(nested_state(step), storage_writer=one)
    assert one.checkpointer.state(4).in_memory
    if folder is not None:
        one.checkpointer.wait(4, "storage", 60)
    dist.barrier()
    say("saved")
    signal.pause()


def save_async(folder: str | None) -> None:
    """Saves by PyTorch's asynchronous call, and changes the state meanwhile."""
    for step in (1, 2, 3, 4):
        state = nested_state(step)
        one = StorageWriter(folder)
        future = saver.async_save(state, storage_writer=one)
        for tensor in state["model"].values():
            tensor.zero_()
        state["odd"].number = -1
        future.result()
        place = one.checkpointer.state(step)
        assert place.stored or folder is None
        assert place.in_memory
    dist.barrier()
    say("saved")
    signal.pause()


def load(folder: str | None) -> None:
    wanted = without_grid(nested_state(4))
    state = zeroed(wanted)
    loader.load(state, storage_reader=StorageReader(folder))
    assert_same(state, wanted)
    # The package's own call reads the same.
    wanted.pop("odd", None)
    wanted.pop("raw", None)
    again = zeroed(wanted)
    assert checkpoint.load(again, communicator_of_group(), folder) == 4
    assert_same(again, wanted)
    say("right")


def load_by_id(folder: str | None) -> None:
    """A step is named by a checkpoint's id, and another type is converted, as PyTorch does."""
    state = {"model": {"w": torch.zeros(300, 400, dtype=torch.float64)}}
    loader.load(state, checkpoint_id="/some/where/step-4", storage_reader=StorageReader(folder))
    assert torch.equal(state["model"]["w"], full("w", (300, 400), torch.float32, 4).double())
    said = ""
    try:
        loader.load(state, checkpoint_id="step-7", storage_reader=StorageReader(folder))
    # PyTorch's error is no Exception.
    except BaseException as error:  # noqa: BLE001
        said = str(error) + repr(getattr(error, "failures", ""))
    assert "no checkpoint of step 7" in said, said
    say("right")


def ids(folder: str | None) -> None:
    """Ids with numbers name steps, and without any the steps go on."""
    first = StorageWriter(folder)
    saver.save({"a": torch.ones(3)}, checkpoint_id="run/step-70", storage_writer=first)
    saver.save({"a": torch.ones(3) * 2}, storage_writer=first)
    saver.save({"a": torch.ones(3) * 3}, storage_writer=StorageWriter(folder))
    state = {"a": torch.zeros(3)}
    assert checkpoint.load(state, communicator_of_group(), folder) == 72
    assert state["a"].tolist() == [3.0] * 3
    dist.barrier()
    first.close()
    say("right")


def module(folder: str | None) -> None:
    """A model and its optimizer are saved by the package's own call, divided, and put back with their other values."""
    torch.manual_seed(1)
    model = torch.nn.Linear(600, 300)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    model(torch.ones(2, 600)).sum().backward()
    optimizer.step()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with checkpoint.Checkpointer(communicator_of_group(), folder) as one:
        one.save(9, {"model": model, "optimizer": optimizer, "step": 9}, replicated=True)
        one.wait(9, "memory", 60)
        model(torch.ones(2, 600)).sum().backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 0.1
        state = {"model": model, "optimizer": optimizer, "step": 0}
        assert checkpoint.load(state, communicator_of_group(), folder) == 9
        assert_same(dict(model.state_dict()), before)
        assert (optimizer.param_groups[0]["lr"], state["step"]) == (0.5, 9)
        dist.barrier()
    say("right")


def sharded_tensors(folder: str | None) -> None:
    """A ShardedTensor is read into one of other shards, and into a plain tensor."""
    from torch.distributed._shard import sharded_tensor  # noqa: PLC0415

    whole = full("shards", (40, 30), torch.float32, 1)

    def made(content: torch.Tensor, border: int) -> typing.Any:
        begin, end = ((0, border), (border, 40))[RANK]
        shard = sharded_tensor.Shard.from_tensor_and_offsets(content[begin:end].clone(), [begin, 0], RANK)
        return sharded_tensor.init_from_local_shards([shard], 40, 30)

    with checkpoint.Checkpointer(communicator_of_group(), folder) as one:
        one.save(1, {"w": made(whole, 20)})
        found = made(torch.zeros(40, 30), 33)
        plain = torch.zeros(40, 30)
        one.wait(1, "memory", 60)
        checkpoint.load({"w": found}, communicator_of_group(), folder)
        checkpoint.load({"w": plain}, communicator_of_group(), folder)
        assert torch.equal(found.local_shards()[0].tensor, whole[:33] if RANK == 0 else whole[33:])
        assert torch.equal(plain, whole)
        dist.barrier()
    say("right")


def fsdp(folder: str | None) -> None:
    """A model of FSDP2 and its optimizer go back to what was saved."""
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(31, 17), torch.nn.Linear(17, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (SIZE,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.full((4, 31), 1.0 + RANK)).sum().backward()
        optimizer.step()

    def values() -> list[torch.Tensor]:
        states = [one for state in optimizer.state.values() for one in state.values()]
        return [
            one.full_tensor().clone() if hasattr(one, "full_tensor") else one.clone()
            for one in (*model.parameters(), *states)
        ]

    step()
    before = values()
    with checkpoint.Checkpointer(communicator_of_group(), folder) as one:
        one.save(1, {"model": model, "optimizer": optimizer})
        one.wait(1, "memory", 60)
        step()
        assert not all(map(torch.equal, values(), before))
        checkpoint.load({"model": model, "optimizer": optimizer}, communicator_of_group(), folder)
        assert all(map(torch.equal, values(), before))
        with checkpoint.open(communicator_of_group(), folder) as saved:
            assert saved.tensors["model.0.weight"].shape == (17, 31)
        dist.barrier()
    say("right")


def foreign(folder: str | None) -> None:
    """What PyTorch itself has written is loaded into the same state."""
    assert folder is not None
    if HAS_DCP:
        state = nested_state(5)
        for name in ("odd", "raw"):
            state.pop(name)
        saver.save(state, storage_writer=part("filesystem").FileSystemWriter(folder + "-dcp"))
        found = zeroed(state)
        checkpoint.load(found, communicator_of_group(), folder + "-dcp")
        assert_same(found, state)
    if RANK == 0:
        torch.save(plain_state(6), folder + ".pt")
    dist.barrier()
    found = zeroed(plain_state(6))
    checkpoint.load(found, communicator_of_group(), folder + ".pt")
    assert_same(found, plain_state(6))
    moved = {"w": torch.zeros(300, 400)}
    checkpoint.load(
        {"net": moved}, communicator_of_group(), folder + ".pt", rename=lambda name: name.removeprefix("net.")
    )
    assert_same(moved["w"], plain_state(6)["w"])
    say("right")


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=RANK, world_size=SIZE)
    folder = None if sys.argv[2] == "-" else sys.argv[2]
    globals()[sys.argv[1]](folder)
    dist.barrier()


if __name__ == "__main__":
    main()
