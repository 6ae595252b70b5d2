"""Messages between two ranks arrive where their tags say, in any order of the calls."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from ranks import Jobs, RankFunction


def rank_rings(rank: int, size: int) -> None:
    tensor = torch.full((1000,), float(rank))
    got = torch.zeros(1000)
    works = [dist.isend(tensor, (rank + 1) % size), dist.irecv(got, (rank - 1) % size)]
    for work in works:
        work.wait()
    assert torch.equal(got, torch.full((1000,), float((rank - 1) % size)))


def rank_sends_by_tags(rank: int, size: int) -> None:
    del size
    tags = [0, 5, 3, 12]
    if rank == 0:
        works = [dist.isend(torch.full((tag + 1,), float(tag)), 1, tag=tag) for tag in tags]
        for work in works:
            work.wait()
    else:
        for tag in reversed(tags):
            got = torch.zeros(tag + 1)
            dist.recv(got, 0, tag=tag)
            assert torch.equal(got, torch.full((tag + 1,), float(tag)))


def rank_keeps_the_order_of_a_tag(rank: int, size: int) -> None:
    del size
    for tag in (0, 4):
        if rank == 0:
            works = [dist.isend(torch.tensor([i]), 1, tag=tag) for i in range(50)]
            for work in works:
                work.wait()
        else:
            got = [torch.tensor([-1]) for _ in range(50)]
            works = [dist.irecv(one, 0, tag=tag) for one in got]
            for work in reversed(works):
                work.wait()
            assert [one.item() for one in got] == list(range(50))


def rank_sends_beside_collectives(rank: int, size: int) -> None:
    # The message waits while collectives pass, and is not taken for a part of one.
    outgoing = torch.arange(size, dtype=torch.float32)
    shares = [1] * size
    if rank == 0:
        work = dist.isend(torch.tensor([42.0]), 1)
        dist.all_to_all_single(torch.zeros(size), outgoing, shares, shares)
        dist.barrier()
        work.wait()
    else:
        dist.all_to_all_single(torch.zeros(size), outgoing, shares, shares)
        dist.barrier()
        if rank == 1:
            got = torch.zeros(1)
            dist.recv(got, 0)
            assert got.item() == 42.0


def rank_batches(rank: int, size: int) -> None:
    got = [torch.zeros(3) for _ in range(size)]
    peers = [peer for peer in range(size) if peer != rank]
    operations = [dist.P2POp(dist.irecv, got[peer], peer) for peer in peers]
    operations += [dist.P2POp(dist.isend, torch.full((3,), 10.0 * rank + peer), peer) for peer in peers]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for peer in peers:
        assert torch.equal(got[peer], torch.full((3,), 10.0 * peer + rank))


def rank_receives_odd_layouts(rank: int, size: int) -> None:
    del size
    if rank == 0:
        dist.send(torch.arange(6.0).view(2, 3).t(), 1)
    else:
        got = torch.full((2, 6), -1.0)
        dist.recv(got[0].view(3, 2), 0)
        assert torch.equal(got[0].view(3, 2), torch.arange(6.0).view(2, 3).t())
        assert torch.equal(got[1], torch.full((6,), -1.0))


def rank_receives_from_anybody(rank: int, size: int) -> None:
    for tag in (0, 6):
        if rank == 0:
            sources = []
            for _ in range(2 * (size - 1)):
                got = torch.zeros(2)
                sources.append(dist.recv(got, tag=tag))
                assert got[0].item() == sources[-1]
                # Messages of one rank come in their order.
                assert got[1].item() == sources.count(sources[-1])
            assert sorted(sources) == sorted(2 * list(range(1, size)))
        else:
            for number in (1, 2):
                dist.send(torch.tensor([float(rank), float(number)]), 0, tag=tag)
    dist.barrier()


def rank_mixes_sources(rank: int, size: int) -> None:
    # What is received from a named rank is not received from anybody again.
    if rank == 0:
        first, last = torch.zeros(1), torch.zeros(1)
        dist.recv(first, 1)
        dist.recv(second := torch.zeros(1))
        dist.recv(last, size - 1)
        assert [first.item(), second.item(), last.item()] == [10.0, 20.0, 30.0]
    elif rank == size - 1:
        dist.recv(torch.zeros(1), 1)
        dist.send(torch.tensor([30.0]), 0)
    if rank == 1:
        dist.send(torch.tensor([10.0]), 0)
        dist.send(torch.tensor([20.0]), 0)
        dist.send(torch.zeros(1), size - 1)
    dist.barrier()


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "function", [rank_rings, rank_sends_beside_collectives, rank_batches, rank_receives_from_anybody]
)
def test_messages_arrive(jobs: Jobs, function: RankFunction, size: int) -> None:
    jobs.run(function, size)


@pytest.mark.parametrize("function", [rank_sends_by_tags, rank_keeps_the_order_of_a_tag, rank_receives_odd_layouts])
def test_two_ranks_pass_messages(jobs: Jobs, function: RankFunction) -> None:
    jobs.run(function, 2)


def test_a_message_is_received_once(jobs: Jobs) -> None:
    jobs.run(rank_mixes_sources, 3)
