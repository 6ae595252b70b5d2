"""Sub-groups, split, shrunk and aborted groups, and barriers that say who is missing."""

from __future__ import annotations

import datetime
import gc
import time
import typing
import weakref

import pytest
import torch
import torch.distributed as dist
from ranks import Jobs, RankFunction

untyped: typing.Any = dist  # The names that PyTorch's types leave out.
VERSION = tuple(int(number) for number in torch.__version__.split(".")[:2])


def rank_uses_sub_groups(rank: int, size: int) -> None:
    group = dist.new_group([0, 2])
    assert size == 3
    if rank != 1:
        tensor = torch.tensor([rank + 1.0])
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == 4.0
        dist.broadcast(tensor := torch.tensor([float(rank)]), src=2, group=group)
        assert tensor.item() == 2.0
    dist.barrier()
    if rank != 1:
        dist.destroy_process_group(group)


def rank_uses_overlapping_groups(rank: int, size: int) -> None:
    groups = [dist.new_group([first, (first + 1) % size]) for first in range(size)]
    works = []
    tensors = []
    for first, group in enumerate(groups):
        if rank in (first, (first + 1) % size):
            tensors.append(torch.full((100,), float(rank)))
            works.append(dist.all_reduce(tensors[-1], group=group, async_op=True))
    for work in reversed(works):
        work.wait()
    expected = sorted([float(rank + (rank + 1) % size), float(rank + (rank - 1) % size)])
    assert sorted(tensor[0].item() for tensor in tensors) == expected


def rank_passes_monitored_barrier(rank: int, size: int) -> None:
    del rank, size
    backend = default_backend()
    for _ in range(3):
        backend.monitored_barrier(datetime.timedelta(seconds=30))


def default_backend() -> typing.Any:
    return dist.distributed_c10d._get_default_group()


def rank_misses_monitored_barrier(rank: int, size: int) -> None:
    del size
    if rank == 0:
        words = r"\[Rank 0\]: Ranks 1, 2 failed to pass monitoredBarrier in 1000 ms"
        with pytest.raises(RuntimeError, match=words):
            default_backend().monitored_barrier(datetime.timedelta(seconds=1), wait_all_ranks=True)
        words = r"\[Rank 0\]: Rank 1 failed to pass monitoredBarrier in 1000 ms"
        with pytest.raises(RuntimeError, match=words):
            default_backend().monitored_barrier(datetime.timedelta(seconds=1))
    dist.barrier()


def rank_shrinks(rank: int, size: int) -> None:
    assert size == 3
    dist.all_reduce(torch.ones(3))
    print("ready", flush=True)
    if rank == 1:
        time.sleep(1000)
    with pytest.raises(RuntimeError, match="rank 1"):
        dist.all_reduce(torch.ones(3))
    smaller = dist.distributed_c10d.shrink_group([1], shrink_flags=1)
    tensor = torch.tensor([rank + 1.0])
    dist.all_reduce(tensor, group=smaller)
    assert tensor.item() == 4.0
    assert smaller.size() == 2
    print("shrunk", flush=True)


def rank_is_aborted(rank: int, size: int) -> None:
    del size
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        backend = default_backend()._get_backend(torch.device("cpu"))
        backend.abort()
        store.set("aborted", "yes")
        with pytest.raises(RuntimeError, match="was aborted by this rank"):
            work.wait()
    else:
        store.wait(["aborted"])
        with pytest.raises(RuntimeError, match="rank 0"):
            dist.all_reduce(torch.ones(3))


def rank_does_not_come(rank: int, size: int) -> None:
    raise AssertionError


def rank_coalesces(rank: int, size: int) -> None:
    with untyped._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        sums = [torch.full((count,), rank + 1.0) for count in (1, 1000, 300_000)]
        for tensor in sums:
            dist.all_reduce(tensor)
        dist.broadcast(words := torch.full((7,), float(rank)), src=1)
    manager.wait()
    for tensor in sums:
        assert torch.equal(tensor, torch.full_like(tensor, size * (size + 1) / 2))
    assert torch.equal(words, torch.ones(7))
    backend = default_backend()._get_backend(torch.device("cpu"))
    with pytest.raises(RuntimeError, match="without startCoalescing"):
        backend._end_coalescing()


def rank_coalesces_messages(rank: int, size: int) -> None:
    got = torch.zeros(200_000)
    operations = [
        dist.P2POp(dist.irecv, got, (rank - 1) % size),
        dist.P2POp(dist.isend, torch.full((200_000,), float(rank)), (rank + 1) % size),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert torch.equal(got, torch.full_like(got, (rank - 1) % size))
    # Nothing is gathered any more, or the operation would keep its tensor.
    dist.broadcast(later := torch.zeros(7), 0)
    kept = weakref.ref(later)
    del later
    gc.collect()
    assert kept() is None


def rank_splits(rank: int, size: int) -> None:
    assert size == 3
    group = dist.split_group(split_ranks=[[0, 2], [1]])
    tensor = torch.tensor([rank + 1.0])
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == (2.0 if rank == 1 else 4.0)
    assert dist.get_world_size(group) == (1 if rank == 1 else 2)


@pytest.mark.parametrize("function", [rank_uses_sub_groups, rank_uses_overlapping_groups])
def test_sub_groups_work_beside_each_other(jobs: Jobs, function: RankFunction) -> None:
    jobs.run(function, 3)


@pytest.mark.skipif(not hasattr(dist.ProcessGroup, "_get_backend"), reason="this PyTorch does not coalesce so")
def test_what_is_coalesced_is_waited_for_together(jobs: Jobs) -> None:
    jobs.run(rank_coalesces, 3)


def test_coalesced_messages_arrive_and_are_let_go_of(jobs: Jobs) -> None:
    jobs.run(rank_coalesces_messages, 3)


@pytest.mark.skipif(not hasattr(dist, "split_group"), reason="this PyTorch does not split groups")
@pytest.mark.skipif(VERSION < (2, 15), reason="this PyTorch splits NCCL's groups alone")
def test_a_group_is_split(jobs: Jobs) -> None:
    jobs.run(rank_splits, 3)


def test_a_monitored_barrier_lets_ranks_pass_together(jobs: Jobs) -> None:
    jobs.run(rank_passes_monitored_barrier, 3)


def test_a_monitored_barrier_names_who_is_missing(jobs: Jobs) -> None:
    jobs.run(rank_misses_monitored_barrier, 3)


@pytest.mark.skipif(not hasattr(dist.distributed_c10d, "shrink_group"), reason="this PyTorch does not shrink groups")
def test_a_group_goes_on_without_a_killed_rank(jobs: Jobs) -> None:
    with jobs.started(rank_shrinks, 3) as job:
        for rank in range(3):
            job.await_word(rank, "ready")
        job.processes[1].kill()
        for ended in job.wait(0, 2):
            assert "shrunk" in ended.output, ended.output


@pytest.mark.skipif(VERSION < (2, 7), reason="this PyTorch cannot abort groups")
def test_an_aborted_group_ends_what_is_under_way(jobs: Jobs) -> None:
    with jobs.started(rank_is_aborted, 2) as job:
        for ended in job.wait():
            assert ended.status == 0, ended.output


def test_ranks_that_do_not_come_are_named(jobs: Jobs) -> None:
    with jobs.started(rank_does_not_come, 3, TEST_TIMEOUT="8") as job:
        job.processes[1].kill()
        said = [ended.output for ended in job.wait(0, 2)]
    # Who gives up first ends the forming for the other one, too.
    assert any("did not come together within 8000 ms: rank 1 did not come" in output for output in said), said
    assert all("rank 1" in output.splitlines()[-1] for output in said), said
