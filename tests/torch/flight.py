"""Operations of all kinds that are in flight at a rank of the default group while others are lost."""

from __future__ import annotations

import contextlib
import time
import typing

import torch
import torch.distributed as dist

# Nothing takes so long that ends at all, in seconds.
HANGS_SECONDS = 60.0
# Tags of messages: 0 is the group's own communicator, and others have one of the two ranks each.
GROUP_TAG, FORMED_TAG, UNFORMED_TAG = 0, 5, 9


class Flight:
    """What one rank has in flight: receives that wait all the time for messages of another rank, also where both are
    left after a loss, and collectives that pass. All ranks make one at the same time.
    """

    def __init__(self) -> None:
        """Begins the receives."""
        self._rank, self._size = dist.get_rank(), dist.get_world_size()
        self._next, self._before = (self._rank + 1) % self._size, (self._rank - 1) % self._size
        if self._size > 1:
            self._ring(FORMED_TAG)
        tags = (GROUP_TAG, FORMED_TAG, UNFORMED_TAG) if self._size > 1 else ()
        self._got = [torch.zeros(1) for _ in tags]
        self._waiting = [
            dist.irecv(one, self._before, tag=tag) for one, tag in zip(self._got, tags, strict=True)
        ]
        self._passing: list[typing.Any] = []

    def _ring(self, tag: int) -> None:
        got = torch.zeros(1)
        sent = dist.isend(torch.tensor([float(self._rank)]), self._next, tag=tag)
        dist.recv(got, self._before, tag=tag)
        sent.wait()
        assert got.item() == self._before

    def once(self) -> None:
        """Has collectives pass, small and large ones at the same time. RuntimeError: a rank is gone."""
        size = self._size
        self._passing.clear()
        for elements in (1, 5_000, 300_000):
            self._passing.append(dist.all_reduce(torch.ones(elements), async_op=True))
        self._passing.append(dist.broadcast(torch.ones(100), 0, async_op=True))
        shares = [1] * size
        self._passing.append(
            dist.all_to_all_single(torch.zeros(size), torch.ones(size), shares, shares, async_op=True)
        )
        for one in self._passing:
            one.wait()

    def await_over(self) -> int:
        """Waits until all has ended because ranks are gone. Returns when that was (monotonic, in nanoseconds)."""
        deadline = time.monotonic() + HANGS_SECONDS
        everything = [*self._waiting, *self._passing]
        while not all(one.is_completed() for one in everything):
            if time.monotonic() > deadline:
                open_ones = [place for place, one in enumerate(everything) if not one.is_completed()]
                raise AssertionError(f"operations {open_ones} of {len(everything)} go on")
            time.sleep(0.0005)
        over = time.monotonic_ns()
        for one in self._passing:
            # Those before the loss went well.
            with contextlib.suppress(RuntimeError):
                one.wait()
        for tag, one in enumerate(self._waiting):
            try:
                one.wait()
            except RuntimeError:
                continue
            raise AssertionError(f"receive {tag} went well, though nobody has sent")
        return over

    def land(self) -> None:
        """Sends what the others wait for, and waits for it. Nobody is lost."""
        tags = (GROUP_TAG, FORMED_TAG, UNFORMED_TAG)[: len(self._waiting)]
        sent = [dist.isend(torch.tensor([float(self._rank)]), self._next, tag=tag) for tag in tags]
        for one in [*sent, *self._waiting]:
            one.wait()
        assert [one.item() for one in self._got] == [float(self._before)] * len(tags)


def verified_sum(size: int) -> None:
    """Checks that this many ranks are there, and that what each of them has arrives."""
    assert dist.get_world_size() == size, (dist.get_world_size(), size)
    dist.all_reduce(tensor := torch.arange(1000, dtype=torch.float32) + dist.get_rank())
    assert torch.equal(tensor, torch.arange(1000, dtype=torch.float32) * size + size * (size - 1) / 2)
