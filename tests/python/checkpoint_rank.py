"""A rank that saves or reads checkpoints: checkpoint_rank.py ACT FOLDER [STEP].

FOLDER is an absolute path; "-": in memory alone; "provider": the provider's store.

Its last line says "right" if all was as it should be.
"""

from __future__ import annotations

import os
import signal
import sys
import typing

import numpy as np

from harmonaize import checkpoint, connect, nccl
from harmonaize.checkpoint.element_type import ElementType

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TYPES = [one for one in ElementType if not one.is_raw]


def say(*words: object) -> None:
    print(*words, flush=True)


def raised(kind: type[Exception], call: typing.Any, *arguments: typing.Any, **named: typing.Any) -> str:
    """Returns the sentence of the error that the call has to raise."""
    try:
        call(*arguments, **named)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__} came")


def whole(name: str, shape: tuple[int, ...], kind: str, step: int) -> typing.Any:
    """Returns a tensor of the model, whose elements follow from its name and the step."""
    seed = sum(name.encode()) + 1000 * step
    count = int(np.prod(shape))
    bits = np.random.default_rng(seed).integers(0, 2, count) if kind == "bool" else np.arange(count) * 7 + seed
    return bits.astype(kind).reshape(shape)


def rows(count: int, rank: int, ranks: int) -> tuple[int, int]:
    return count * rank // ranks, count * (rank + 1) // ranks


def shard(full: typing.Any, dimension: int) -> checkpoint.Shard:
    """Returns this rank's part of a tensor. It does not lie together where it is not rows."""
    begin, end = rows(full.shape[dimension], RANK, SIZE)
    places = tuple(slice(begin, end) if at == dimension else slice(None) for at in range(full.ndim))
    offset = tuple(begin if at == dimension else 0 for at in range(full.ndim))
    return checkpoint.Shard(full[places], full.shape, offset)


def sharded_state(step: int) -> dict[str, typing.Any]:
    """Returns this rank's part of a model's state."""
    layers = [
        {
            "weight": shard(whole(f"w{one}", (50, 30), "float32", step), 0),
            "rare": shard(whole(f"r{one}", (3,), "int16", step), 0),
        }
        for one in range(3)
    ]
    return {
        "model": {"layers": layers, "embedding": shard(whole("e", (40, 60), "float64", step), 1)},
        "types": {kind.value: whole(kind.value, (5, 3), kind.numpy_name, step) for kind in TYPES},
        "scalar": whole("scalar", (), "float32", step),
        "number": np.float32(step + 0.5),
        "empty": np.zeros((0, 4), np.float32),
        "transposed": whole("t", (20, 30), "int32", step).T,
        "loader": f"loader of step {step}".encode() * (step + 1),
        "step": step,
        "rate": float("inf"),
        "betas": (0.9, 0.999),
        "schedule": {"kind": "cosine", "warm": None, "marks": [1, 2, [3]]},
    }


def zeroed(value: typing.Any) -> typing.Any:
    """Returns a state of the same form without its values."""
    if isinstance(value, dict):
        return {key: zeroed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [zeroed(one) for one in value]
    if isinstance(value, checkpoint.Shard):
        return checkpoint.Shard(zeroed(value.data), value.global_shape, value.offset)
    if isinstance(value, np.ndarray):
        # With the same strides, so that what does not lie together is not read in one piece either.
        made = np.zeros_like(value)
        return np.ascontiguousarray(made.T).T if value.ndim > 1 and not value.flags.c_contiguous else made
    if isinstance(value, np.generic):
        return np.zeros_like(value)[()]
    return b"" if isinstance(value, bytes) else None


def assert_same(found: typing.Any, wanted: typing.Any, where: str = "") -> None:
    """Checks that two states are the same, bit for bit."""
    assert type(found) is type(wanted), (where, found, wanted)
    if isinstance(wanted, dict):
        assert list(found) == list(wanted), where
        for key, one in wanted.items():
            assert_same(found[key], one, f"{where}.{key}")
    elif isinstance(wanted, list):
        for place, one in enumerate(wanted):
            assert_same(found[place], one, f"{where}.{place}")
    elif isinstance(wanted, checkpoint.Shard):
        assert_same(found.data, wanted.data, where)
    elif isinstance(wanted, np.ndarray | np.generic):
        assert found.dtype == wanted.dtype, where
        assert found.shape == wanted.shape, where
        assert found.tobytes() == wanted.tobytes(), (where, found, wanted)
    else:
        assert found == wanted, (where, found, wanted)


def replicated_state(step: int) -> dict[str, typing.Any]:
    """Returns a state that all ranks have: tensors that are divided, and many that are not."""
    return {
        "large": whole("l", (1, 700, 300), "float32", step),
        "turned": whole("t", (400, 500), "float64", step).T,
        "small": {f"s{one}": whole(f"s{one}", (one,), "float32", step) for one in range(20)},
        "shared": shard(whole("shared", (30, 20), "float32", step), 0),
        "step": step,
        "note": b"x" * step,
    }


def save(one: nccl.Communicator, folder: str | None) -> None:
    """Saves steps by shards, and waits for orders while the last is kept."""
    saver = checkpoint.Checkpointer(one, folder)
    for step in (10, 20, 30):
        saver.save(step, sharded_state(step), epoch_end=step == 10)
    saver.wait(30, "memory", 60)
    assert saver.state(30).in_memory
    if folder is not None:
        saver.wait(30, "storage", 60)
        assert saver.state(30).stored
    one.barrier()
    say("saved")
    signal.pause()


def save_replicated(one: nccl.Communicator, folder: str | None) -> None:
    saver = checkpoint.Checkpointer(one, folder)
    for step in (1, 2):
        saver.save(step, replicated_state(step), replicated=True)
    saver.wait(2, "memory", 60)
    one.barrier()
    say("saved")
    signal.pause()


def read(one: nccl.Communicator, folder: str | None, step: int) -> None:
    with checkpoint.open(one, folder) as saved:
        say("place", saved.place, "step", saved.step, "ranks", saved.ranks)
        assert saved.step == step
        wanted = sharded_state(step)
        state = zeroed(wanted)
        assert saved.read_into(state) == []
        assert_same(state, wanted)
        assert saved.tensors["model.embedding"] == checkpoint.SavedTensor(ElementType.F64, (40, 60))
        full = whole("e", (40, 60), "float64", step)
        assert_same(saved.read("model.embedding"), full)
        assert_same(saved.read("model.embedding", (3, 50), (30, 7)), full[3:33, 50:57].copy())
        assert saved.objects["loader"] == wanted["loader"]
        assert list(saved.objects) == ["loader"]
        assert saved.values["betas"] == (0.9, 0.999)
        refusals_of_reading(saved, step)
    assert "was closed" in raised(ValueError, saved.read, "scalar")
    again = zeroed(wanted)
    assert checkpoint.load(again, one, folder) == step
    assert_same(again, wanted)
    say("right")


def refusals_of_reading(saved: checkpoint.SavedCheckpoint, step: int) -> None:
    said = raised(
        checkpoint.CheckpointError, saved.read_into, {"scalar": np.zeros((), np.float32), "other": np.zeros(1)}
    )
    assert said == f"the checkpoint of step {step} has no 'other'; with strict=False the rest is read", said
    partly: dict[str, typing.Any] = {"scalar": np.zeros((), np.float32), "other": np.ones(1), "more": 7}
    assert saved.read_into(partly, strict=False) == ["other", "more"]
    assert (partly["other"].tolist(), partly["more"]) == ([1.0], 7)
    assert_same(partly["scalar"], whole("scalar", (), "float32", step))
    assert "asked for as" in raised(nccl.NcclError, saved.read_into, {"scalar": np.zeros((), np.float64)})
    assert "asked for as" in raised(nccl.NcclError, saved.read_into, {"scalar": np.zeros(3, np.float32)})
    fixed = np.zeros((), np.float32)
    fixed.flags.writeable = False
    assert "may not be written" in raised(ValueError, saved.read_into, {"scalar": fixed})
    assert "no tensor 'nothing'" in raised(ValueError, saved.read, "nothing")


def read_replicated(one: nccl.Communicator, folder: str | None, step: int) -> None:
    wanted = replicated_state(step)
    state = zeroed(wanted)
    assert checkpoint.load(state, one, folder) == step
    assert_same(state, wanted)
    say("right")


def none(one: nccl.Communicator, folder: str | None) -> None:
    said = raised(checkpoint.NoCheckpointError, checkpoint.open, one, folder)
    assert "there is no checkpoint of this job in memory" in said, said
    for nothing in ("/", "/nowhere/store"):
        raised(checkpoint.NoCheckpointError, checkpoint.open, one, nothing)
        raised(checkpoint.NoCheckpointError, checkpoint.open, None, nothing)
    say("right")


def refusals(one: nccl.Communicator, folder: str | None) -> None:
    saver = checkpoint.Checkpointer(one, folder)
    array = np.zeros(3, np.float32)
    assert "use another key, as 'a_b'" in raised(ValueError, saver.save, 1, {"a/b": array})
    assert "use another key" in raised(ValueError, saver.save, 1, {"a.": {".b": array}})
    assert "control character" in raised(ValueError, saver.save, 1, {"a\n": array})
    assert "of the package itself" in raised(ValueError, saver.save, 1, {"harmonaize": {"values": array}})
    assert "two values of the state have the name 'a.b'" in raised(
        ValueError, saver.save, 1, {"a": {"b": 1}, "a.b": array}
    )
    assert "'f' is a function, which a checkpoint does not keep" in raised(TypeError, saver.save, 1, {"f": raised})
    assert "byte order" in raised(TypeError, saver.save, 1, {"a": np.zeros(2, ">f4")})
    assert "complex128" in raised(TypeError, saver.save, 1, {"a": np.zeros(2, complex)})
    other = {"a": np.zeros(3 + RANK, np.float32)}
    assert "not replicated" in raised(ValueError, saver.save, 1, other, replicated=True)
    outside = checkpoint.Shard(array, (4,), (2,))
    assert "does not lie in (4,)" in raised(ValueError, saver.save, 1, {"a": outside})
    assert "different numbers of dimensions" in raised(
        ValueError, saver.save, 1, {"a": checkpoint.Shard(array, (4, 1), (0,))}
    )
    assert "not in 'tape'" in raised(ValueError, saver.wait, 1, "tape")
    assert "among the last 16" in raised(nccl.NcclError, saver.state, 99)
    # After all of these a save still goes well, and one of two shapes is told when it is read.
    saver.save(1, {"a": np.zeros(3 + RANK, np.float32)})
    saver.wait(1, "memory", 60)
    assert "different types or shapes" in raised(nccl.NcclError, checkpoint.open, one)
    one.barrier()
    assert "not in storage after 0" in raised(TimeoutError, saver.wait, 1, "storage", 0)
    saver.close()
    saver.close()
    assert "was closed" in raised(ValueError, saver.save, 2, {"a": array})
    for wrong in (
        {"format": "zip"},
        {"keep": -2},
        {"most_bytes_per_second": -1.0},
        {"threads": 1000},
        {"folder": "/" + 5000 * "x"},
    ):
        raised(nccl.NcclError, checkpoint.Checkpointer, one, **wrong)
    say("right")


def failed_folder(one: nccl.Communicator, _: str | None) -> None:
    """A folder that cannot be written is told, and the job goes on."""
    with checkpoint.Checkpointer(one, "/dev/null/store") as saver:
        for step in (1, 2, 3, 4):
            saver.save(step, {"a": np.full(10, float(step))}, replicated=True)
        saver.wait(4, "memory", 60)
        assert "/dev/null/store" in raised(checkpoint.CheckpointError, saver.wait, 4, "storage", 60)
        state = saver.state(4)
        assert (state.in_memory, state.stored) == (True, False)
        assert "/dev/null/store" in str(state.failure)
        found = {"a": np.zeros(10)}
        assert checkpoint.load(found, one) == 4
        assert found["a"].tolist() == [4.0] * 10
        # The others still read this rank's part.
        one.barrier()
    one.barrier()
    # An orderly end has given the memory back.
    raised(checkpoint.NoCheckpointError, checkpoint.open, one)
    say("right")


def exception(one: nccl.Communicator, _: str | None) -> None:
    """A block that an exception leaves, leaves the checkpoint."""
    try:
        with checkpoint.Checkpointer(one) as saver:
            saver.save(5, {"a": np.full(10, 5.0)}, replicated=True)
            saver.wait(5, "memory", 60)
            raise RuntimeError("the training has failed")  # noqa: TRY301
    except RuntimeError:
        pass
    found = {"a": np.zeros(10)}
    assert checkpoint.load(found, one) == 5
    say("right")


def loss(one: nccl.Communicator, _: str | None) -> None:
    """A rank that dies before it has saved is told to those that wait for all."""
    saver = checkpoint.Checkpointer(one)
    saver.save(1, {"a": np.full(10, 1.0)}, replicated=True)
    saver.wait(1, "memory", 60)
    one.barrier()
    if RANK == 1:
        say("right")
        os._exit(0)
    state = {"a": np.full(10, 2.0)}

    def save() -> None:
        # The daemon may know of the end already when the save begins.
        saver.save(2, state)
        saver.wait(2, "memory", 60)

    assert "rank 1" in raised(nccl.RemoteError, save)
    assert "rank 1" in raised(nccl.RemoteError, saver.save, 3, state, replicated=True)
    say("right")
    os._exit(0)


def two_savers(one: nccl.Communicator, folder: str | None) -> None:
    """Two checkpointers of one job, which is the daemon's to tell apart."""
    assert folder is not None
    first = checkpoint.Checkpointer(one, folder)
    second = checkpoint.Checkpointer(one)
    first.save(1, {"a": np.full(5, 1.0)}, replicated=True)
    second.save(2, {"b": np.full(5, 2.0)}, replicated=True)
    first.save(3, {"a": np.full(5, 3.0)}, replicated=True)
    first.wait(3, "storage", 60)
    found = {"a": np.zeros(5)}
    assert checkpoint.load(found, one, folder) == 3
    assert found["a"].tolist() == [3.0] * 5
    one.barrier()
    say("right")


def stated(one: nccl.Communicator, folder: str | None) -> None:
    """Leaves to the job's requirements how many checkpoints stay, and in which form."""
    if RANK == 0:
        connect().set_requirements(os.environ["HARMONAIZE_JOB"], {"checkpoint": {"keep": 1, "format": "ucp"}})
    one.barrier()
    with checkpoint.Checkpointer(one, folder) as saver:
        for step in (1, 2, 3):
            saver.save(step, {"a": np.full(5, float(step))}, replicated=True)
        saver.wait(3, "storage", 60)
        one.barrier()
    say("right")


def many(one: nccl.Communicator, _: str | None) -> None:
    """Saves a thousand tensors again and again, which change their number and shapes between."""
    with checkpoint.Checkpointer(one) as saver:
        for step, count in enumerate((1000, 1000, 999, 1001, 1001)):
            state = {f"t{at}": np.full(50 + at % 7 * (step // 2), step + at, np.float32) for at in range(count)}
            saver.save(step, state, replicated=True)
            found = {name: np.zeros_like(value) for name, value in state.items()}
            saver.wait(step, "memory", 60)
            assert checkpoint.load(found, one) == step
            assert_same(found, state)
            one.barrier()
    say("right")


def main() -> None:
    os.environ["NCCL_COMM_ID"] = f"nccl-test-{os.environ['MASTER_PORT']}:1"
    one = nccl.Communicator.init(nccl.UniqueId.new(), SIZE, RANK, "world")
    folder = {"-": None, "provider": checkpoint.PROVIDER_STORE}.get(sys.argv[2], sys.argv[2])
    arguments = [int(word) for word in sys.argv[3:]]
    globals()[sys.argv[1]](one, folder, *arguments)
    one.barrier()
    one.destroy()


if __name__ == "__main__":
    main()
