"""Groups that are formed, and formed again of other processes, by reconfigure."""

from __future__ import annotations

import datetime
import os
import pathlib
import time
import typing

import pytest
import torch
import torch.distributed as dist
from ranks import Jobs

untyped: typing.Any = dist  # The names that PyTorch's types leave out.
reconfigure: typing.Any = getattr(untyped, "_reconfigure", None)
pytestmark = pytest.mark.skipif(reconfigure is None, reason="this PyTorch does not reconfigure groups")


def make_unformed_group(rank: int, size: int) -> list[str]:
    """Has the process give up its group for one that is formed later. Returns all processes' handles."""
    dist.barrier()
    dist.destroy_process_group()
    store = untyped.FileStore(str(pathlib.Path(os.environ["TEST_FOLDER"]) / "second-store"), size)
    dist.init_process_group(
        os.environ["TEST_BACKEND"],
        store=store,
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=60),
        enable_reconfigure=True,
    )
    store.set(f"handle{rank}", untyped._get_reconfigure_handle())
    return [store.get(f"handle{one}").decode() for one in range(size)]


def check_ranks(members: list[int], rank: int) -> None:
    """Checks the group, whose ranks are these processes, this one at its place."""
    group = dist.distributed_c10d._get_default_group()
    assert (group.rank(), group.size()) == (members.index(rank), len(members))
    dist.all_reduce(tensor := torch.tensor([float(rank)]))
    assert tensor.item() == sum(members)
    if len(members) == 1:
        return
    after, before = (group.rank() + 1) % group.size(), (group.rank() - 1) % group.size()
    sent = group.send([torch.tensor([rank])], after, 5)
    group.recv([got := torch.tensor([-1])], before, 5).wait()
    sent.wait()
    assert got.item() == members[before]


def rank_is_chosen_anew(rank: int, size: int) -> None:
    assert size == 4
    handles = make_unformed_group(rank, size)
    with pytest.raises(RuntimeError, match="has to be formed by reconfigure"):
        dist.all_reduce(torch.ones(1))
    if rank != 3:
        reconfigure(uuid=1, handles=[handles[one] for one in (2, 0, 1)]).wait()
        check_ranks([2, 0, 1], rank)
        waiting = dist.all_reduce(torch.ones(1), async_op=True) if rank == 0 else None
        print("first", flush=True)
    if rank == 1:
        while True:
            time.sleep(1)
    # Process 1 is killed, and process 3 takes its place.
    while not pathlib.Path(os.environ["TEST_FOLDER"], "killed").exists():
        time.sleep(0.02)
    members = sorted((0, 2, 3), key=lambda one: handles[one])
    reconfigure(uuid=2, handles={handles[one] for one in members}).wait()
    check_ranks(members, rank)
    if rank == 0 and waiting is not None:
        with pytest.raises(RuntimeError, match=r"rank|was reconfigured"):
            waiting.wait()
    dist.barrier()
    with pytest.raises(ValueError, match="the uuid 2 was used before"):
        reconfigure(uuid=2, handles={handles[one] for one in members})
    with pytest.raises(ValueError, match="has to be among the 1 handles"):
        reconfigure(uuid=3, handles=["another"])
    print("second", flush=True)


def rank_waits_for_another(rank: int, size: int) -> None:
    handles = make_unformed_group(rank, size)
    if rank == 1:
        return
    with pytest.raises(RuntimeError, match="did not come together within 1000 ms: rank 1 did not come"):
        reconfigure(uuid=7, handles=handles, timeout=datetime.timedelta(seconds=1))
    reconfigure(uuid=8, handles=[handles[0]]).wait()
    check_ranks([0], rank)


def test_processes_are_chosen_anew_after_one_was_killed(jobs: Jobs) -> None:
    with jobs.started(rank_is_chosen_anew, 4) as job:
        job.await_word(1, "first")
        job.processes[1].kill()
        job.processes[1].wait()
        (job.folder / "killed").touch()
        for ended in job.wait(0, 2, 3):
            assert ended.status == 0, ended.output
            assert "second" in ended.output, ended.output


def test_processes_that_do_not_come_are_named(jobs: Jobs) -> None:
    with jobs.started(rank_waits_for_another, 2) as job:
        for ended in job.wait():
            assert ended.status == 0, ended.output
