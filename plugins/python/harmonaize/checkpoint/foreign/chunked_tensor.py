"""Tensors that lie in several files, in boxes that do not overlap."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.lazy_tensor import Array, LazyTensor, checked_box

# Most pairs of boxes that are compared to find two that overlap. The boxes of real checkpoints are in order along one
# dimension, so that each is compared with few; a stranger's may not be.
_MOST_COMPARISONS = 1 << 22


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A box of a tensor. `open` finds it in its file, when it is needed."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]
    open: typing.Callable[[], LazyTensor] = dataclasses.field(repr=False, compare=False)


class ChunkedTensor:
    """A tensor of boxes in several files."""

    def __init__(self, name: str, type: ElementType, shape: tuple[int, ...], chunks: list[Chunk]) -> None:
        """Takes the boxes. ForeignFormatError: one does not lie in the tensor, or two overlap."""
        self.type = type
        self.shape = shape
        self._name = quoted(name)
        self._chunks = [chunk for chunk in chunks if math.prod(chunk.shape) > 0]
        for chunk in self._chunks:
            try:
                checked_box(shape, chunk.offset, chunk.shape)
            except ValueError as error:
                raise ForeignFormatError(f"the tensor {self._name} has a part outside of it: {error}") from error
        self._check_overlaps()

    def read(self, offset: tuple[int, ...] | None = None, shape: tuple[int, ...] | None = None) -> Array:
        """Returns the elements of a box, by default all. Errors: as of ForeignTensor; a part that is missing is one."""
        offset, shape = checked_box(self.shape, offset, shape)
        parts = [(chunk, common) for chunk in self._chunks if (common := _common(chunk, offset, shape)) is not None]
        held = sum(math.prod(common[1]) for _, common in parts)
        if held != math.prod(shape):
            raise ForeignFormatError(
                f"of the tensor {self._name} {math.prod(shape) - held} elements are missing that are asked for",
            )
        # Before the memory is there, all parts must be: a description of a few bytes may claim any size.
        opened = [(self._opened(chunk), chunk, common) for chunk, common in parts]
        into = np.empty(shape, self.type.numpy_dtype)
        for tensor, chunk, (begin, extents) in opened:
            place = tuple(
                slice(first - zero, first - zero + extent)
                for first, zero, extent in zip(begin, offset, extents, strict=True)
            )
            inner = tuple(first - zero for first, zero in zip(begin, chunk.offset, strict=True))
            if shape:
                tensor.read_into(into[place], inner)
            else:
                tensor.read_into(into, inner)
        return into

    def _opened(self, chunk: Chunk) -> LazyTensor:
        tensor = chunk.open()
        if tensor.shape != chunk.shape or tensor.type != self.type:
            raise ForeignFormatError(
                f"a part of the tensor {self._name} is {tensor.type.value} of {tensor.shape} in its file, and should "
                f"be {self.type.value} of {chunk.shape}",
            )
        return tensor

    def _check_overlaps(self) -> None:
        """Goes along the dimension that is cut most often, and compares the boxes that lie beside each other there."""
        if len(self._chunks) < len(("one", "another")):
            return
        cuts = [len({chunk.offset[axis] for chunk in self._chunks}) for axis in range(len(self.shape))]
        axis = cuts.index(max(cuts)) if cuts else None
        beside: list[Chunk] = []
        left = _MOST_COMPARISONS
        for chunk in self._chunks if axis is None else sorted(self._chunks, key=lambda one: one.offset[axis]):
            if axis is not None:
                beside = [one for one in beside if one.offset[axis] + one.shape[axis] > chunk.offset[axis]]
            left -= len(beside) + 1
            if left < 0:
                raise ForeignFormatError(f"the tensor {self._name} is cut into more parts than can be checked")
            if any(_common(one, chunk.offset, chunk.shape) is not None for one in beside):
                raise ForeignFormatError(f"two parts of the tensor {self._name} overlap")
            beside.append(chunk)


def _common(
    chunk: Chunk, offset: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Returns offset and shape of what a chunk and a box have in common; None: nothing."""
    begin, extents = [], []
    for mine, extent, other, other_extent in zip(chunk.offset, chunk.shape, offset, shape, strict=True):
        first = max(mine, other)
        common = min(mine + extent, other + other_extent) - first
        if common <= 0:
            return None
        begin.append(first)
        extents.append(common)
    return tuple(begin), tuple(extents)
