"""Boxes of tensors in this process's memory: what a save copies, and what a read fills."""

from __future__ import annotations

import builtins
import dataclasses
import math
import typing

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.shard import Shape


@dataclasses.dataclass(slots=True)
class Piece:
    """A box of a tensor, or an object, and where it lies.

    `data` is the array, tensor or bytes. `address` is where its elements lie one after the other in this host's memory;
    None: they do not, and have to be copied by NumPy or PyTorch. `part` says which of the data's elements are meant;
    None: all of them.
    """

    name: str
    type: ElementType
    global_shape: Shape
    offset: Shape
    shape: Shape
    data: typing.Any
    address: int | None
    is_object: bool = False
    part: tuple[slice, ...] | None = None

    @property
    def bytes(self) -> int:
        """How many bytes the box's elements have."""
        return math.prod(self.shape) * self.type.bytes

    @property
    def form(self) -> tuple[str, ElementType, Shape, Shape, Shape, bool]:
        """What the piece is, whatever its elements are."""
        return (self.name, self.type, self.global_shape, self.offset, self.shape, self.is_object)

    def source(self) -> typing.Any:
        """Returns the array or tensor of exactly the box's elements."""
        return self.data if self.part is None else self.data[self.part]

    def rows(self, dimension: int, begin: int, end: int) -> Piece:
        """Returns the part from `begin` to `end` of a dimension. Those before it have the length 1."""
        stride = math.prod(self.shape[dimension + 1 :]) * self.type.bytes
        places = (slice(None),) * dimension + (slice(begin, end),)
        return Piece(
            self.name,
            self.type,
            self.global_shape,
            (*self.offset[:dimension], self.offset[dimension] + begin, *self.offset[dimension + 1 :]),
            (*self.shape[:dimension], end - begin, *self.shape[dimension + 1 :]),
            self.data,
            None if self.address is None else self.address + begin * stride,
            part=places,
        )


def object_piece(name: str, content: builtins.bytes) -> Piece:
    """Returns the piece of an object: bytes that one piece holds whole."""
    return Piece(name, ElementType.U8, (len(content),), (0,), (len(content),), content, None, is_object=True)
