"""Ranks are killed while operations of all kinds are in flight: everything returns, and the others go on."""

from __future__ import annotations

import datetime
import os
import pathlib
import subprocess
import sys
import time
import typing

import harmonaize_torch
import pytest
import torch.distributed as dist
from flight import HANGS_SECONDS, Flight, verified_sum
from ranks import Jobs

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parents[1] / "plugins" / "python")]

from daemons import PROGRAMS, daemon_in_folder  # noqa: E402
from elastic_jobs import elastic_job  # noqa: E402

untyped: typing.Any = dist  # The names that PyTorch's types leave out.
SHRINK_ABORT = 1
# The groups' own timeout, in seconds: what hangs shall not be ended by it.
LONG_SECONDS = 10 * HANGS_SECONDS
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
        if not lost:
            continue
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
        timeout = datetime.timedelta(seconds=LONG_SECONDS)
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
        print("flying with", dist.get_world_size(), flush=True)
        try:
            while True:
                flight.once()
        except RuntimeError as error:
            print(error, flush=True)
        print("over", flight.await_over(), flush=True)
        left = dist.get_world_size() - len(lost)
        go_on(left)
        formed = time.monotonic_ns()
        verified_sum(left)
        print("verified", left, formed, time.monotonic_ns(), flush=True)


def times_of(said: str, left: int) -> list[int]:
    """When all had ended at a rank that says this, when the group of so many was there, and when that had summed."""
    before, _, after = said.partition(f"verified {left} ")
    over = [line.split()[1] for line in before.splitlines() if line.startswith("over ")]
    return [int(over[-1]), *(int(word) for word in after.split()[:2])]


class Crowd(typing.Protocol):
    """Ranks of either kind of job."""

    processes: list[subprocess.Popen[str]]

    def await_line(self, rank: int, start: str) -> object:
        """Waits until the rank has printed a line that begins so."""


def kill_in_flight(job: Crowd, size: int, said: typing.Callable[[int], str]) -> list[int]:
    """Kills ranks, waits for the first sum of the others after each loss, and prints how long it took. Returns who is
    left.
    """
    left = list(range(size))
    for lost in LOSSES[size]:
        for rank in left:
            job.await_line(rank, f"flying with {len(left)}")
        left = [rank for rank in left if rank not in lost]
        time.sleep(FLYING_SECONDS)
        killed = time.monotonic_ns()
        for rank in lost:
            job.processes[rank].kill()
        for rank in left:
            job.await_line(rank, f"verified {len(left)}")
        times = [times_of(said(rank), len(left)) for rank in left]
        over, formed, summed = ((max(each) - killed) * 1e-6 for each in zip(*times, strict=True))
        print(f"{len(left)} left: all had ended after {over:.1f} ms, formed {formed:.1f}, summed {summed:.1f}")
    return left


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
    with jobs.started(rank_outlives_others, size, TEST_WAY=way, TEST_TIMEOUT=str(LONG_SECONDS)) as job:
        for ended in job.wait(*kill_in_flight(job, size, job.said)):
            assert ended.status == 0, ended.output


@pytest.mark.parametrize("size", LOSSES)
def test_everything_in_flight_returns_and_an_elastic_training_goes_on(tmp_path: pathlib.Path, size: int) -> None:
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip("there is no daemon: build the target harmonaized, or set HARMONAIZE_BUILD")
    program = [str(HERE / "elastic_flight_rank.py")]
    with daemon_in_folder() as daemon, elastic_job(daemon, tmp_path, "elastic-flight", size, program) as job:
        left = kill_in_flight(job, size, lambda rank: "\n".join(job.said(rank)))
        job.order(left[0], "stop")
        assert [job.ends(rank) for rank in left] == ["end done"] * len(left)
