"""Copies of a training's state in memory: the last two commits."""

from __future__ import annotations

import dataclasses
import typing

Tensor = typing.Any
"""A NumPy array or a tensor on the CPU."""

Tree = typing.Any
"""What JSON can carry."""


@dataclasses.dataclass
class Snapshot:
    """A copy of a state: its numbers and structure, and its tensors, which the copy owns."""

    tree: Tree
    tensors: list[Tensor]


class Commits:
    """The last two commits. Ranks that lost another one differ by one commit at most, so they have one in common."""

    def __init__(self) -> None:
        """Has none at first."""
        self._kept: list[tuple[int, Snapshot]] = []

    @property
    def newest(self) -> int | None:
        """The number of the newest commit; None: there is none."""
        return self._kept[-1][0] if self._kept else None

    def add(self, number: int, make: typing.Callable[[Snapshot | None], Snapshot]) -> None:
        """Keeps `make(spare)` as commit `number`; `spare` is a copy whose memory may be used again."""
        spare = self._kept.pop(0)[1] if len(self._kept) == 2 else None  # noqa: PLR2004
        self._kept.append((number, make(spare)))

    def at(self, number: int) -> Snapshot | None:
        """Returns the commit with this number; None: it is not kept."""
        return next((snapshot for kept, snapshot in self._kept if kept == number), None)

    def keep_only(self, number: int, snapshot: Snapshot) -> None:
        """Forgets all commits but this one."""
        self._kept = [(number, snapshot)]
