"""Operations of all kinds that are in flight at a rank of the default group while others are lost."""

from __future__ import annotations

import contextlib
import time
import typing

import pytest
import torch
import torch.distributed as dist

# Nothing takes so long that ends at all, in seconds.
HANGS_SECONDS = 60.0
# Tags of messages: 0 is the group's own communicator, and others have one of the two ranks each, which
# forms when both use it.
GROUP_TAG, FORMED_TAG, UNFORMED_TAG = 0, 5, 9
TAGS = (GROUP_TAG, FORMED_TAG, UNFORMED_TAG)


class Flight:
    """What one rank has in flight: receives that wait all the time for messages of each other rank, so that any two
    that are left after a loss wait for each other, and collectives that pass. All ranks make one at the same time.
    """

    def __init__(self) -> None:
        """Begins the receives."""
        self._rank, self._size = dist.get_rank(), dist.get_world_size()
        self._others = [rank for rank in range(self._size) if rank != self._rank]
        for work in [*self._send(FORMED_TAG), *self._receive(FORMED_TAG)]:
            work.wait()
        self._waiting = [work for tag in TAGS for work in self._receive(tag)]
        self._passing: list[typing.Any] = []

    def _send(self, tag: int) -> list[typing.Any]:
        return [dist.isend(torch.tensor([float(self._rank)]), one, tag=tag) for one in self._others]

    def _receive(self, tag: int) -> list[typing.Any]:
        return [dist.irecv(torch.zeros(1), one, tag=tag) for one in self._others]

    def once(self) -> None:
        """Has collectives pass, small and large ones at the same time. RuntimeError: a rank is gone."""
        size = self._size
        self._passing.clear()
        for elements in (1, 5_000, 300_000):
            self._passing.append(dist.all_reduce(torch.ones(elements), async_op=True))
        self._passing.append(dist.broadcast(torch.ones(100), 0, async_op=True))
        shares = [1] * size
        self._passing.append(dist.all_to_all_single(torch.zeros(size), torch.ones(size), shares, shares, async_op=True))
        for one in self._passing:
            one.wait()

    def await_over(self) -> int:
        """Waits until all has ended because ranks are gone. Returns when that was (monotonic, in nanoseconds)."""
        deadline = time.monotonic() + HANGS_SECONDS
        everything = [*self._waiting, *self._passing]
        while not all(one.is_completed() for one in everything):
            if time.monotonic() > deadline:
                open_ones = [place for place, one in enumerate(everything) if not one.is_completed()]
                message = f"operations {open_ones} of {len(everything)} go on"
                raise AssertionError(message)
            time.sleep(0.0005)
        over = time.monotonic_ns()
        for one in self._passing:
            # Those before the loss went well.
            with contextlib.suppress(RuntimeError):
                one.wait()
        for one in self._waiting:
            # Nobody has sent.
            with pytest.raises(RuntimeError):
                one.wait()
        return over

    def land(self) -> None:
        """Sends what the others wait for, and waits for it. Nobody is lost."""
        for one in [work for tag in TAGS for work in self._send(tag)] + self._waiting:
            one.wait()


def verified_sum(size: int) -> None:
    """Checks that this many ranks are there, and that what each of them has arrives."""
    assert dist.get_world_size() == size, (dist.get_world_size(), size)
    dist.all_reduce(tensor := torch.arange(1000, dtype=torch.float32) + dist.get_rank())
    assert torch.equal(tensor, torch.arange(1000, dtype=torch.float32) * size + size * (size - 1) / 2)
