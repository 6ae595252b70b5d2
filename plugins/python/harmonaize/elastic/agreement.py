"""What the ranks tell each other: a few numbers, in one operation."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import typing

from harmonaize.elastic.errors import OutOfStepError
from harmonaize.nccl import Communicator, Operator

# Longest text that rank 0 tells the others, in bytes: the longest path of Linux. Names and tickets are shorter.
_MOST_TEXT_BYTES = 4096


class Point(enum.IntEnum):
    """Where in the training the ranks meet."""

    COMMIT = 1
    CHECK = 2
    END = 3
    ENDED = 4


@dataclasses.dataclass(frozen=True)
class Standing:
    """What a rank brings to a new membership: its newest commit (`NONE`: it has no state of the job), whether it had
    the others' state before, its host, and the number of the membership as it counts.
    """

    NONE = -1

    commit: int
    synchronized: bool
    host: int
    epoch: int


def gather_standings(communicator: Communicator, mine: Standing) -> list[Standing]:
    """Returns what each rank brings. RemoteError: a rank is gone."""
    fields = (ctypes.c_int64 * 4)(mine.commit, int(mine.synchronized), mine.host, mine.epoch)
    everyones = (ctypes.c_int64 * (4 * communicator.size))()
    communicator.all_gather(fields, everyones)
    return [
        Standing(everyones[at], bool(everyones[at + 1]), everyones[at + 2], everyones[at + 3])
        for at in range(0, len(everyones), 4)
    ]


def tell(communicator: Communicator, text: str) -> str:
    """Returns rank 0's text on every rank. RemoteError: a rank is gone; ValueError: the text is too long."""
    encoded = text.encode()
    if len(encoded) > _MOST_TEXT_BYTES:
        raise ValueError(f"a text of {len(encoded)} bytes is too long to be told")
    buffer = (ctypes.c_uint8 * _MOST_TEXT_BYTES)(*encoded)
    communicator.broadcast(buffer)
    return bytes(buffer).rstrip(b"\0").decode(errors="replace")


class Met(typing.NamedTuple):
    """What any of the ranks wants: a change of the ranks, the training's end, that the commit is saved."""

    change: bool
    stop: bool
    save: bool


class Meeting:
    """Meets the other ranks at a point of the training. It makes nothing anew, since it is used in every step."""

    def __init__(self, communicator: Communicator) -> None:
        """Takes the communicator of all ranks."""
        self._communicator = communicator
        self._numbers = (ctypes.c_int64 * 7)()

    def meet(self, point: Point, commits: int, *, asks: bool, stops: bool, saves: bool = False) -> Met:
        """Returns what any of the ranks wants.

        RemoteError: a rank is gone; OutOfStepError: another rank is at another point, or has made other commits.
        """
        numbers = self._numbers
        # Largest and smallest values of all ranks by one maximum.
        numbers[0], numbers[1] = point, -point
        numbers[2], numbers[3] = commits, -commits
        numbers[4], numbers[5], numbers[6] = asks, stops, saves
        self._communicator.all_reduce(numbers, op=Operator.MAX)
        if numbers[0] != -numbers[1] or numbers[2] != -numbers[3]:
            raise OutOfStepError(
                f"ranks are out of step: this one is at {point.name} after {commits} commits, others between "
                f"{Point(-numbers[1]).name} and {Point(numbers[0]).name} after {-numbers[3]} to {numbers[2]}; call "
                "commit and check in the same order on all ranks"
            )
        return Met(bool(numbers[4]), bool(numbers[5]), bool(numbers[6]))


def gather_leavers(communicator: Communicator, leavers: set[int], newcomers: int) -> tuple[tuple[int, ...], int]:
    """Returns the ranks that are to leave as any rank knows, and the most newcomers that any rank knows of."""
    marks = (ctypes.c_int32 * (communicator.size + 1))()
    for rank in leavers:
        if 0 <= rank < communicator.size:
            marks[rank] = 1
    marks[communicator.size] = newcomers
    communicator.all_reduce(marks, op=Operator.MAX)
    return tuple(rank for rank in range(communicator.size) if marks[rank]), marks[communicator.size]
