"""Children that are forked, memory that is shared, and hosts without a daemon."""

from __future__ import annotations

import gc
import os
import pathlib
import tempfile
import time
import typing

import harmonaize_torch
import pytest
import torch
import torch.distributed as dist
from ranks import Daemon, Jobs, RankFunction
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

# A user whom the system does not know.
ANOTHER_USER = 2001


def in_child(check: typing.Callable[[], None]) -> int:
    """Runs `check` in a forked child, and returns its exit status."""
    child = os.fork()
    if child == 0:
        try:
            check()
        except BaseException as wrong:  # noqa: BLE001
            print(wrong, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def rank_forks(rank: int, size: int) -> None:
    work = dist.all_reduce(tensor := torch.ones(1000), async_op=True)

    def check() -> None:
        with pytest.raises(RuntimeError, match="was forked from the one that made the group"):
            dist.all_reduce(torch.ones(3))
        gc.collect()

    assert in_child(check) == 0
    work.wait()
    assert tensor[0].item() == size
    loader = DataLoader(TensorDataset(torch.arange(20.0)), batch_size=5, num_workers=2)
    total = sum(batch[0].sum() for batch in loader)
    dist.all_reduce(total)
    assert total.item() == 190.0 * size
    assert rank < size


def shared_bytes() -> int:
    """Returns how much memory of the process is mapped from files in memory."""
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    found = [line.split() for line in maps if "memfd:" in line]
    return sum(int(words[0].split("-")[1], 16) - int(words[0].split("-")[0], 16) for words in found)


def rank_allocates(rank: int, size: int) -> None:
    before = shared_bytes()
    tensor = harmonaize_torch.empty(1024, 1024)
    assert tensor.dtype == torch.float32
    assert tensor.shape == (1024, 1024)
    assert tensor.sum().item() == 0.0
    assert shared_bytes() - before >= tensor.numel() * 4
    tensor += rank + 1
    dist.all_reduce(tensor)
    assert tensor[0, 0].item() == size * (size + 1) / 2
    half = harmonaize_torch.empty(3, dtype=torch.float16)
    dist.broadcast(half.fill_(rank), 0)
    assert half.tolist() == [0.0, 0.0, 0.0]
    del tensor
    gc.collect()
    # Memory goes back once its last operation has been seen to have ended.
    until = time.monotonic() + 20
    while shared_bytes() - before >= 1024 * 1024 * 4 and time.monotonic() < until:
        time.sleep(0.05)
    assert shared_bytes() - before < 1024 * 1024 * 4


def rank_allocates_by_its_group(rank: int, size: int) -> None:
    del rank
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    before = shared_bytes()
    tensor = backend.allocate_tensor(1024 * 1024, dtype=torch.float64, device=torch.device("cpu"))
    assert shared_bytes() - before >= 1024 * 1024 * 8
    tensor.fill_(1)
    dist.all_reduce(tensor)
    assert tensor[-1].item() == size


def rank_has_shared_buckets(rank: int, size: int) -> None:
    del rank, size
    network = nn.Linear(1024, 1024)
    before = shared_bytes()
    parallel = DistributedDataParallel(network)
    assert shared_bytes() - before >= 1024 * 1024 * 4
    parallel(torch.ones(1, 1024)).sum().backward()
    assert network.weight.grad is not None


def rank_says_why(rank: int, size: int) -> None:
    raise AssertionError


def rank_leaves_work_behind(rank: int, size: int) -> None:
    del size
    if rank == 0:
        # Never matched: the process ends with it under way, and with a callback that nobody runs.
        dist.irecv(torch.ones(100), 1).get_future().then(lambda future: future.value())
    for _ in range(50):
        dist.all_reduce(torch.ones(1000), async_op=True)
    dist.barrier()
    if rank != 0:
        time.sleep(0.5)


@pytest.mark.parametrize("function", [rank_forks, rank_allocates])
def test_a_process_forks_and_shares_memory(jobs: Jobs, function: RankFunction) -> None:
    jobs.run(function, 2)


@pytest.mark.skipif(
    not hasattr(torch._C._distributed_c10d, "Backend")
    or not hasattr(torch._C._distributed_c10d.Backend, "supports_tensor_alloc"),
    reason="this PyTorch asks no backend for the memory of buckets",
)
def test_buckets_of_data_parallelism_lie_in_shared_memory(jobs: Jobs) -> None:
    jobs.run(rank_has_shared_buckets, 2)


@pytest.mark.skipif(
    not hasattr(torch._C._distributed_c10d, "Backend")
    or not hasattr(torch._C._distributed_c10d.Backend, "supports_tensor_alloc"),
    reason="this PyTorch asks no backend for the memory of buckets",
)
def test_a_group_allocates_shared_memory(jobs: Jobs) -> None:
    jobs.run(rank_allocates_by_its_group, 2)


def test_a_process_may_end_with_operations_under_way(jobs: Jobs) -> None:
    with jobs.started(rank_leaves_work_behind, 2) as job:
        assert job.wait(0)[0].status == 0, job.said(0)


def test_a_host_without_a_daemon_is_told_what_to_mount(jobs: Jobs, tmp_path: pathlib.Path) -> None:
    missing = Jobs(tmp_path / "nobody.sock", tmp_path)
    with missing.started(rank_says_why, 1) as job:
        (ended,) = job.wait()
        assert ended.status == 1
        for words in ["nobody.sock", "docker run -v /run/harmonaize:/run/harmonaize", "HARMONAIZE_SOCKET"]:
            assert words in ended.output, ended.output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_users_daemon_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(prefix="harmonaize-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        os.chown(folder, ANOTHER_USER, ANOTHER_USER)
        stranger = Daemon(folder, user=ANOTHER_USER)
        with Jobs(stranger.socket, tmp_path).started(rank_says_why, 1) as job:
            (ended,) = job.wait()
            assert ended.status == 1
            for words in [f"runs as user {ANOTHER_USER}", "is not believed", "/etc/harmonaize/daemon-user"]:
                assert words in ended.output, ended.output
        stranger.stop()
