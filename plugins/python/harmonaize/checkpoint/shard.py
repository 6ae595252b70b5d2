"""A box of a tensor that several ranks hold together."""

from __future__ import annotations

import dataclasses
import typing

Shape = tuple[int, ...]
"""Lengths, or an offset, by dimension."""


@dataclasses.dataclass(frozen=True)
class Shard:
    """What this rank has of a tensor: `data` is the box at `offset` of a tensor of `global_shape`.

    `data` is a NumPy array or a tensor of PyTorch.
    """

    data: typing.Any
    global_shape: Shape
    offset: Shape
