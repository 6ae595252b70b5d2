"""What is called when an operation ends may itself communicate, and wait."""

from __future__ import annotations

import time
import typing

import pytest
import torch
import torch.distributed as dist
from ranks import Jobs
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

HAS_BACKENDS = hasattr(dist.ProcessGroup, "_get_backend")


def rank_waits_in_a_callback(rank: int, size: int) -> None:
    def average_again(_: typing.Any) -> torch.Tensor:
        # The other ranks come later, so that this waits.
        time.sleep(0.1 * rank)
        value: list[torch.Tensor] = dist.all_reduce(torch.ones(2), async_op=True).get_future().wait()
        return value[0]

    for _ in range(2):
        time.sleep(0.1 * rank)
        future = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(average_again)
        assert torch.equal(future.wait(), torch.full((2,), float(size)))


def rank_compresses_gradients(rank: int, size: int) -> None:
    torch.manual_seed(rank)
    network = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)))
    state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    network.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for _ in range(4):
        network(torch.rand(8, 64)).sum().backward()
    gathered = [torch.empty(64, 64) for _ in range(size)]
    gradient = next(network.parameters()).grad
    assert gradient is not None
    dist.all_gather(gathered, gradient)
    assert all(torch.equal(one, gradient) for one in gathered)


def rank_communicates_when_aborted(rank: int, size: int) -> None:
    assert size == 2
    if rank == 1:
        with pytest.raises(RuntimeError, match="rank 0"):
            dist.all_reduce(torch.ones(1))
        return
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    said = []

    def communicate(_: typing.Any) -> None:
        try:
            dist.isend(torch.ones(1), 1 - rank, tag=7)
        except RuntimeError as error:
            said.append(str(error))

    waiting = dist.irecv(torch.zeros(1), 1 - rank, tag=5)
    waiting.get_future().then(communicate)
    backend.abort()
    with pytest.raises(RuntimeError, match="aborted"):
        waiting.wait()
    while not said:
        time.sleep(0.01)
    assert "aborted" in said[0]
    # Nothing new begins, whatever its communicator would be.
    for call in (
        lambda: dist.send(torch.ones(1), 1 - rank, tag=9),
        lambda: dist.all_to_all_single(torch.ones(2), torch.ones(2), [1, 1], [1, 1]),
        lambda: dist.recv(torch.ones(1)),
        dist.barrier,
    ):
        with pytest.raises(RuntimeError, match="aborted"):
            call()


def test_a_callback_may_wait_for_another_operation(jobs: Jobs) -> None:
    jobs.run(rank_waits_in_a_callback, 2)


def test_power_sgd_compresses_gradients(jobs: Jobs) -> None:
    jobs.run(rank_compresses_gradients, 2)


@pytest.mark.skipif(not HAS_BACKENDS, reason="this PyTorch cannot abort groups")
def test_a_callback_may_communicate_while_the_group_is_aborted(jobs: Jobs) -> None:
    if not hasattr(torch._C._distributed_c10d.Backend, "abort"):
        pytest.skip("this PyTorch cannot abort groups")
    with jobs.started(rank_communicates_when_aborted, 2) as job:
        for ended in job.wait():
            assert ended.status == 0, ended.output
