"""Ranks are killed while operations of all kinds are in flight: everything returns, and the others go on."""

from __future__ import annotations

import datetime
import os
import pathlib
import time
import typing

import harmonaize_torch
import pytest
import torch.distributed as dist
from flight import HANGS_SECONDS, Flight, verified_sum
from ranks import Job, Jobs

untyped: typing.Any = dist  # The names that PyTorch's types leave out.
SHRINK_ABORT = 1
# Time for which operations pass before ranks are killed, so that some are in flight, in seconds.
FLYING_SECONDS = 0.3
# The ranks that are killed, one and then two at once, by their numbers at the start. Rank 0 is not spared.
LOSSES = {4: [[2], [0, 3]], 6: [[0], [2, 5]]}


def shrink_to(left: int) -> None:
    """Leaves out the ranks that are gone, until so many are left. A rank that did not know of all of them yet fails, as
    do the others then: all ask again.
    """
    deadline = time.monotonic() + HANGS_SECONDS
    while dist.get_world_size() > left:
        assert time.monotonic() < deadline
        lost = harmonaize_torch.lost_ranks()
        try:
            untyped.distributed_c10d.shrink_group(lost, shrink_flags=SHRINK_ABORT)
        except RuntimeError as error:
            print("again:", error, flush=True)


class Reconfigured:
    """The group of a process that is formed by reconfigure."""

    def __init__(self, rank: int, size: int) -> None:
        """Gives up the group for one that is formed so."""
        dist.barrier()
        dist.destroy_process_group()
        store = untyped.FileStore(str(pathlib.Path(os.environ["TEST_FOLDER"]) / "second-store"), size)
        timeout = datetime.timedelta(seconds=HANGS_SECONDS)
        dist.init_process_group(
            "harmonaize", store=store, rank=rank, world_size=size, timeout=timeout, enable_reconfigure=True
        )
        store.set(f"handle{rank}", untyped._get_reconfigure_handle())
        self._handles = [store.get(f"handle{one}").decode() for one in range(size)]
        self._store = store
        untyped._reconfigure(uuid=0, handles=self._handles).wait()

    def shrink_to(self, left: int) -> None:
        """Forms the group of those that are left, once all of them know all losses: who gives up the group before is
        gone from it, too.
        """
        deadline = time.monotonic() + HANGS_SECONDS
        while len(lost := harmonaize_torch.lost_ranks()) < len(self._handles) - left:
            assert time.monotonic() < deadline
        members = [rank for rank in range(len(self._handles)) if rank not in lost]
        self._store.set(f"{left}/{dist.get_rank()}", "knows")
        self._store.wait([f"{left}/{rank}" for rank in members])
        self._handles = [self._handles[rank] for rank in members]
        untyped._reconfigure(uuid=left, handles=self._handles).wait()


def rank_outlives_others(rank: int, size: int) -> None:
    go_on = Reconfigured(rank, size).shrink_to if os.environ["TEST_WAY"] == "reconfigure" else shrink_to
    for lost in LOSSES[size]:
        flight = Flight()
        print(f"flying with {dist.get_world_size()}", flush=True)
        try:
            while True:
                flight.once()
        except RuntimeError as error:
            print(error, flush=True)
        over = flight.await_over()
        left = dist.get_world_size() - len(lost)
        go_on(left)
        formed = time.monotonic_ns()
        verified_sum(left)
        print(f"times {over} {formed} {time.monotonic_ns()} verified", flush=True)


def times_of(job: Job, rank: int, loss: int) -> list[int]:
    """When all had ended at the rank, when the next group was there, and when it had summed."""
    job.await_word(rank, "verified", loss + 1)
    return [int(word) for word in job.said(rank).split("times ")[loss + 1].split()[:3]]


def kill_in_flight(job: Job, lost: list[int], left: list[int], loss: int) -> None:
    """Kills ranks at once, waits for the first sum of the others, and prints how long it all took."""
    for rank in [*lost, *left]:
        job.await_word(rank, f"flying with {len(lost) + len(left)}")
    time.sleep(FLYING_SECONDS)
    killed = time.monotonic_ns()
    for rank in lost:
        job.processes[rank].kill()
    times = [times_of(job, rank, loss) for rank in left]
    over, formed, summed = ((max(each) - killed) * 1e-6 for each in zip(*times, strict=True))
    print(f"{len(left)} left: all had ended after {over:.1f} ms, formed {formed:.1f}, summed {summed:.1f}")


@pytest.mark.parametrize("size", LOSSES)
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(
            "shrink",
            marks=pytest.mark.skipif(
                not hasattr(dist.distributed_c10d, "shrink_group"), reason="this PyTorch does not shrink groups"
            ),
        ),
        pytest.param(
            "reconfigure",
            marks=pytest.mark.skipif(
                not hasattr(dist, "_reconfigure"), reason="this PyTorch does not reconfigure groups"
            ),
        ),
    ],
)
def test_everything_in_flight_returns_and_the_others_go_on(jobs: Jobs, size: int, way: str) -> None:
    with jobs.started(rank_outlives_others, size, TEST_WAY=way) as job:
        left = list(range(size))
        for loss, lost in enumerate(LOSSES[size]):
            left = [rank for rank in left if rank not in lost]
            kill_in_flight(job, lost, left, loss)
        for ended in job.wait(*left):
            assert ended.status == 0, ended.output
