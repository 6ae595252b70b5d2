"""Every collective gives what it should, for tensors of every layout, waited for at once or later."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from ranks import Jobs, RankFunction

SIZES = [1, 2, 3]


def contribution(rank: int, count: int = 12) -> torch.Tensor:
    """What a rank brings: different at each rank and element, and exact in float32."""
    return torch.arange(count, dtype=torch.float32) * (rank + 1) + rank


def all_contributions(size: int, count: int = 12) -> torch.Tensor:
    return torch.stack([contribution(rank, count) for rank in range(size)])


def rank_all_reduces(rank: int, size: int) -> None:
    expected = all_contributions(size).sum(0)
    tensor = contribution(rank)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, expected)
    work = dist.all_reduce(again := contribution(rank), async_op=True)
    work.wait()
    assert work.is_completed()
    assert torch.equal(again, expected)
    assert torch.equal(work.get_future().value()[0], expected)


def rank_all_reduces_odd_layouts(rank: int, size: int) -> None:
    expected = all_contributions(size).sum(0)
    transposed = torch.empty(4, 3).t()
    transposed.copy_(contribution(rank).view(3, 4))
    strided = torch.full((24,), -1.0)
    strided[::2] = contribution(rank)
    channels = torch.empty(1, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    channels.copy_(contribution(rank).view(1, 3, 2, 2))
    dist.all_reduce(transposed)
    dist.all_reduce(strided[::2])
    dist.all_reduce(channels)
    assert torch.equal(transposed, expected.view(3, 4))
    assert torch.equal(strided[::2], expected)
    assert torch.equal(strided[1::2], torch.full((12,), -1.0))
    assert torch.equal(channels, expected.view(1, 3, 2, 2))
    for shape in [(0,), (0, 3), ()]:
        tensor = torch.ones(shape)
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.ones(shape) * size)


def rank_calls_many_without_waiting(rank: int, size: int) -> None:
    tensors = [contribution(rank, 1 + i % 50) + i for i in range(700)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for i, tensor in enumerate(tensors):
        assert torch.equal(tensor, (all_contributions(size, 1 + i % 50) + i).sum(0))


def rank_broadcasts_and_reduces(rank: int, size: int) -> None:
    for root in range(size):
        tensor = contribution(rank)
        dist.broadcast(tensor, root)
        assert torch.equal(tensor, contribution(root))
        tensor = contribution(rank)
        dist.reduce(tensor, root)
        if rank == root:
            assert torch.equal(tensor, all_contributions(size).sum(0))


def rank_gathers_and_scatters(rank: int, size: int) -> None:
    everything = all_contributions(size)
    pieces = [torch.zeros(12) for _ in range(size)]
    dist.all_gather(pieces, contribution(rank))
    assert torch.equal(torch.stack(pieces), everything)
    block = torch.zeros(size, 12)
    dist.all_gather(list(block), contribution(rank))
    assert torch.equal(block, everything)
    for root in range(size):
        pieces = [torch.zeros(12) for _ in range(size)]
        dist.gather(contribution(rank), pieces if rank == root else None, dst=root)
        if rank == root:
            assert torch.equal(torch.stack(pieces), everything)
        mine = torch.zeros(12)
        dist.scatter(mine, list(everything) if rank == root else None, src=root)
        assert torch.equal(mine, contribution(rank))


def rank_uses_single_forms(rank: int, size: int) -> None:
    everything = all_contributions(size)
    block = torch.zeros(size * 12)
    dist.all_gather_into_tensor(block, contribution(rank))
    assert torch.equal(block.view(size, 12), everything)
    sums = torch.zeros(12)
    whole = torch.cat([contribution(rank) + piece for piece in range(size)])
    dist.reduce_scatter_tensor(sums, whole)
    assert torch.equal(sums, everything.sum(0) + rank * size)
    out = torch.zeros(12)
    dist.reduce_scatter(out, [contribution(rank) + piece for piece in range(size)])
    assert torch.equal(out, everything.sum(0) + rank * size)


def rank_exchanges(rank: int, size: int) -> None:
    # Rank r sends to rank p the numbers 100 r + 10 p + i.
    outgoing = torch.cat([torch.arange(3) + 100 * rank + 10 * peer for peer in range(size)])
    incoming = torch.zeros(3 * size, dtype=torch.long)
    dist.all_to_all_single(incoming, outgoing)
    expected = torch.cat([torch.arange(3) + 100 * peer + 10 * rank for peer in range(size)])
    assert torch.equal(incoming, expected)
    # Rank r sends r + p + 1 rows to rank p, and none to itself.
    shares = [0 if peer == rank else rank + peer + 1 for peer in range(size)]
    rows = torch.cat([torch.full((share, 2), 10.0 * rank + peer) for peer, share in enumerate(shares)])
    got = torch.full((sum(shares), 2), -1.0)
    dist.all_to_all_single(got, rows, shares, shares)
    wanted = torch.cat([torch.full((share, 2), 10.0 * peer + rank) for peer, share in enumerate(shares)])
    assert torch.equal(got, wanted)
    lists = [torch.full((peer + 1,), 10.0 * rank + peer) for peer in range(size)]
    results = [torch.zeros(rank + 1) for _ in range(size)]
    dist.all_to_all(results, lists)
    for peer in range(size):
        assert torch.equal(results[peer], torch.full((rank + 1,), 10.0 * peer + rank))


def rank_uses_objects(rank: int, size: int) -> None:
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == [{"rank": one, "text": "x" * one} for one in range(size)]
    shared: list[object] = ["from 0", 7] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, src=0)
    assert shared == ["from 0", 7]
    gathered: list[object] = [None] * size
    dist.gather_object(rank * rank, gathered if rank == 0 else None, dst=0)
    if rank == 0:
        assert gathered == [one * one for one in range(size)]
    mine: list[object] = [None]
    dist.scatter_object_list(mine, [str(one) for one in range(size)] if rank == 0 else None, src=0)
    assert mine == [str(rank)]


def rank_coalesces(rank: int, size: int) -> None:
    manager = dist.distributed_c10d._coalescing_manager
    tensors = [contribution(rank, count) for count in (3, 1000, 1)]
    with manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        assert torch.equal(tensor, all_contributions(size, tensor.numel()).sum(0))
    blocks = [torch.zeros(size * count) for count in (3, 5)]
    with manager():
        for block in blocks:
            dist.all_gather_into_tensor(block, contribution(rank, block.numel() // size))
    for block in blocks:
        assert torch.equal(block.view(size, -1), all_contributions(size, block.numel() // size))


def rank_chains_futures(rank: int, size: int) -> None:
    work = dist.all_reduce(contribution(rank), async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert torch.equal(doubled.wait(), all_contributions(size).sum(0) * 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "function",
    [
        rank_all_reduces,
        rank_all_reduces_odd_layouts,
        rank_broadcasts_and_reduces,
        rank_gathers_and_scatters,
        rank_uses_single_forms,
        rank_exchanges,
        rank_uses_objects,
        rank_chains_futures,
    ],
)
def test_a_collective_gives_what_it_should(jobs: Jobs, function: RankFunction, size: int) -> None:
    jobs.run(function, size)


def test_more_operations_than_streams_may_be_under_way(jobs: Jobs) -> None:
    jobs.run(rank_calls_many_without_waiting, 2)


@pytest.mark.skipif(not hasattr(dist.distributed_c10d, "_CollOp"), reason="this PyTorch does not coalesce")
def test_coalesced_collectives_give_what_they_should(jobs: Jobs) -> None:
    jobs.run(rank_coalesces, 2)
