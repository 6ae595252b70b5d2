"""A rank that is killed, stopped or late is named in the exception of those who wait for it."""

from __future__ import annotations

import datetime
import os
import re
import signal
import time

import pytest
import torch
import torch.distributed as dist
from ranks import Ended, Job, Jobs, RankFunction
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# How long those who wait may take to hear of a rank that was killed, in seconds.
PROMISED_SECONDS = 5.0


def rank_waits_for_rank_2(rank: int, size: int) -> None:
    del size
    dist.all_reduce(torch.ones(3))
    print("ready", flush=True)
    if rank == 2:
        time.sleep(1000)
    dist.all_reduce(torch.ones(3))


def rank_waits_for_a_future(rank: int, size: int) -> None:
    del size
    print("ready", flush=True)
    if rank == 2:
        time.sleep(1000)
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()


def rank_runs_backward(rank: int, size: int) -> None:
    del size
    network = DistributedDataParallel(nn.Linear(8, 8))
    network(torch.ones(1, 8)).sum().backward()
    loss = network(torch.ones(1, 8)).sum()
    print("ready", flush=True)
    if rank == 2:
        time.sleep(1000)
    loss.backward()


def rank_receives_from_the_dead(rank: int, size: int) -> None:
    """Its communicators with rank 2 are not there yet when that one dies."""
    assert size == 3
    print("ready", flush=True)
    if rank == 2:
        time.sleep(1000)
    calls = {
        "tag": lambda: dist.recv(torch.zeros(1), 2, tag=5),
        "any": lambda: dist.recv(torch.zeros(1)),
        "exchange": lambda: dist.all_to_all_single(torch.zeros(3), torch.ones(3), [1, 1, 1], [1, 1, 1]),
    }
    calls[os.environ["TEST_CALL"]]()


def rank_receives_from_rank_1(rank: int, size: int) -> None:
    del size
    print("ready", flush=True)
    if rank == 0:
        dist.recv(torch.zeros(3), 1)
    time.sleep(1000)


def rank_asks_for_other_counts(rank: int, size: int) -> None:
    del size
    dist.all_reduce(torch.ones(3 + rank))


def rank_goes_on_after_a_wait(rank: int, size: int) -> None:
    tensor = torch.ones(3)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        with pytest.raises(RuntimeError, match=r"Waiting for all_reduce .* ended by a timeout of 100 ms"):
            work.wait(timeout=datetime.timedelta(milliseconds=100))
        dist.send(torch.ones(1), 1)
    else:
        dist.recv(torch.zeros(1), 0)
        work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert torch.equal(tensor, torch.full((3,), float(size)))


def await_ready(job: Job) -> None:
    for rank in range(len(job.processes)):
        job.await_word(rank, "ready")


def expect_named_in_time(ranks: list[Ended], name: str, timeout: str) -> None:
    """All ranks failed, and name who was missing. One of them ended it all when its time was over; another may have
    heard of that before its own time was.
    """
    last = [one.output.splitlines()[-1] for one in ranks]
    assert all(one.status == 1 for one in ranks), last
    assert all(name in line for line in last), last
    assert any(f"ended by its timeout of {timeout}" in line for line in last), last


@pytest.mark.parametrize("function", [rank_waits_for_rank_2, rank_waits_for_a_future, rank_runs_backward])
def test_a_killed_rank_is_named_within_seconds(jobs: Jobs, function: RankFunction) -> None:
    with jobs.started(function, 3) as job:
        await_ready(job)
        time.sleep(0.3)
        killed = time.monotonic()
        job.processes[2].kill()
        for ended in job.wait(0, 1):
            assert ended.status == 1, ended.output
            assert "rank 2" in ended.output.splitlines()[-1], ended.output
            # The interpreter's way out of an exception counts, and PyTorch's is long.
            assert ended.at - killed < 4 * PROMISED_SECONDS


@pytest.mark.parametrize("call", ["tag", "any", "exchange"])
def test_a_killed_rank_ends_what_has_no_communicator_yet(jobs: Jobs, call: str) -> None:
    with jobs.started(rank_receives_from_the_dead, 3, TEST_CALL=call) as job:
        await_ready(job)
        time.sleep(0.1)
        job.processes[2].kill()
        for ended in job.wait(0, 1):
            assert ended.status == 1, ended.output
            assert "rank 2" in ended.output.splitlines()[-1], ended.output
            assert "timeout" not in ended.output.splitlines()[-1], ended.output


@pytest.mark.parametrize("function", [rank_waits_for_rank_2, rank_waits_for_a_future, rank_runs_backward])
def test_a_stopped_rank_is_named_when_the_time_is_over(jobs: Jobs, function: RankFunction) -> None:
    with jobs.started(function, 3, TEST_TIMEOUT="4") as job:
        await_ready(job)
        os.kill(job.processes[2].pid, signal.SIGSTOP)
        ended = job.wait(0, 1)
    expect_named_in_time(ended, "for rank 2, which is stopped", "4 s")


def test_a_late_rank_is_named_when_the_time_is_over(jobs: Jobs) -> None:
    with jobs.started(rank_waits_for_rank_2, 3, TEST_TIMEOUT="8") as job:
        ended = job.wait(0, 1)
    expect_named_in_time(ended, "for rank 2", "8 s")


def test_a_rank_that_does_not_send_is_named(jobs: Jobs) -> None:
    with jobs.started(rank_receives_from_rank_1, 2, TEST_TIMEOUT="2") as job:
        (ended,) = job.wait(0)
        assert re.search(r"recv .* from rank 1 ended by its timeout of 2 s", ended.output), ended.output


def test_ranks_that_disagree_are_told_what_each_asked_for(jobs: Jobs) -> None:
    with jobs.started(rank_asks_for_other_counts, 2) as job:
        for ended in job.wait():
            assert "rank 0 asked for AllReduce(3 x float32, sum)" in ended.output
            assert "rank 1 asked for AllReduce(4 x float32, sum)" in ended.output


def test_a_wait_that_gave_up_leaves_the_operation_under_way(jobs: Jobs) -> None:
    jobs.run(rank_goes_on_after_a_wait, 2)
