"""Tensors whose elements stay in their file until they are asked for."""

from __future__ import annotations

import math
import typing

import numpy as np

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.foreign.byte_source import ByteSource
from harmonaize.checkpoint.foreign.errors import ForeignFormatError

Array = typing.Any
"""A NumPy array: its type is not named, since NumPy may be installed without its types."""

# Most dimensions of a tensor: NumPy before 2.0 has no more.
_MOST_DIMENSIONS = 32

# Largest extent and stride, and count of elements: that many elements of 16 bytes are what 64-bit numbers can address.
_MOST_ELEMENTS = (1 << 59) - 1

# Bytes that are read at once around elements that do not lie together. Reading what lies between is cheaper than a
# system call for each run of less than this.
_SPAN_BYTES = 4 << 20

# Bytes to which a tensor may repeat the elements of its storage. Masks and position tables do; a storage of a few bytes
# that claims to be terabytes is an attack on memory.
_MOST_REPEATED_BYTES = 64 << 20


class LazyTensor:
    """A tensor in a file: the type of its elements, its shape, and where they lie, with strides in elements."""

    def __init__(
        self,
        type: ElementType,
        shape: tuple[int, ...],
        elements: ByteSource,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        """Takes a tensor whose first element is the first of `elements`. Without strides it is row-major.

        ForeignFormatError: an extent or stride is negative or too large, or elements lie outside.
        """
        self.type = type
        self.shape = checked_shape(shape)
        self.strides = row_major(shape) if strides is None else strides
        self._elements = elements
        self._check()

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    def read(self, offset: tuple[int, ...] | None = None, shape: tuple[int, ...] | None = None) -> Array:
        """Returns the elements of a box, by default all, as a new array of `type.numpy_dtype`.

        Only the bytes of the box, and short gaps between them, are read. ValueError: the box does not lie in the
        tensor.
        """
        offset, shape = checked_box(self.shape, offset, shape)
        into = np.empty(shape, self.type.numpy_dtype)
        self.read_into(into, offset)
        return into

    def read_into(self, into: Array, offset: tuple[int, ...]) -> None:
        """Fills an array of `type.numpy_dtype` with the box of its shape at `offset`. Errors: as of `read`."""
        checked_box(self.shape, offset, into.shape)
        if into.size > 0:
            begin = sum(place * stride for place, stride in zip(offset, self.strides, strict=True))
            self._fill(into, begin, self.strides)

    def head(self, count: int) -> LazyTensor:
        """Returns the first elements of a flat tensor. ForeignFormatError: it is not flat, or has fewer."""
        if len(self.shape) != 1 or count > self.count:
            raise ForeignFormatError(
                f"{self._elements.name} has no flat tensor of {count} elements where one should be"
            )
        return LazyTensor(self.type, (count,), self._elements, self.strides)

    def _check(self) -> None:
        if len(self.strides) != len(self.shape) or not all(0 <= stride <= _MOST_ELEMENTS for stride in self.strides):
            raise ForeignFormatError(f"{self._elements.name} has a tensor whose strides make no sense")
        if self.count == 0:
            return
        if _span(self.shape, self.strides) * self.type.bytes > self._elements.size:
            raise ForeignFormatError(
                f"{self._elements.name} has a tensor with elements outside of its {self._elements.size} bytes",
            )
        if self.count * self.type.bytes > max(self._elements.size, _MOST_REPEATED_BYTES):
            raise ForeignFormatError(
                f"{self._elements.name} has a tensor of {self.count} elements that repeats {self._elements.size} "
                "bytes: save it again after contiguous()",
            )

    def _fill(self, into: Array, begin: int, strides: tuple[int, ...]) -> None:
        """Fills `into`, which is not empty, with the elements from `begin` on that have these strides."""
        size = self.type.bytes
        span = _span(into.shape, strides)
        if span == into.size and strides_agree(into.shape, strides) and into.flags.c_contiguous:
            self._elements.read_into(begin * size, memoryview(into.reshape(-1).view(np.uint8)))
        elif span * size <= _SPAN_BYTES:
            data = np.frombuffer(self._elements.read(begin * size, span * size), into.dtype)
            steps = tuple(stride * size for stride in strides)
            into[...] = np.lib.stride_tricks.as_strided(data, into.shape, steps, writeable=False)
        else:
            self._fill_in_parts(into, begin, strides)

    def _fill_in_parts(self, into: Array, begin: int, strides: tuple[int, ...]) -> None:
        """Divides the dimension that spans most, so that each part spans little or is one index of it."""
        reach = [(extent - 1) * stride for extent, stride in zip(into.shape, strides, strict=True)]
        axis = reach.index(max(reach))
        step = max(1, _SPAN_BYTES // (2 * strides[axis] * self.type.bytes))
        for first in range(0, into.shape[axis], step):
            part = into[(slice(None),) * axis + (slice(first, first + step),)]
            if step == 1:
                part = part[(slice(None),) * axis + (0,)]
                self._fill(part, begin + first * strides[axis], strides[:axis] + strides[axis + 1 :])
            else:
                self._fill(part, begin + first * strides[axis], strides)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the strides, in elements, of a tensor whose elements lie together in order."""
    strides = []
    stride = 1
    for extent in reversed(shape):
        strides.append(stride)
        stride *= max(extent, 1)
    return tuple(reversed(strides))


def strides_agree(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Returns whether the strides are those of `row_major`, as far as they matter."""
    expected = row_major(shape)
    return all(extent <= 1 or mine == own for extent, mine, own in zip(shape, strides, expected, strict=True))


def checked_shape(shape: object) -> tuple[int, ...]:
    """Returns a shape from a file. ForeignFormatError: it is none."""
    if not isinstance(shape, tuple) or len(shape) > _MOST_DIMENSIONS:
        raise ForeignFormatError(f"a tensor has no shape, or more than {_MOST_DIMENSIONS} dimensions")
    count = 1
    for extent in shape:
        if type(extent) is not int or not 0 <= extent <= _MOST_ELEMENTS:
            raise ForeignFormatError("a tensor has an extent that is no count")
        count *= max(extent, 1)
    if count > _MOST_ELEMENTS:
        raise ForeignFormatError("a tensor has more elements than there can be")
    return shape


def checked_box(
    whole: tuple[int, ...], offset: tuple[int, ...] | None, shape: tuple[int, ...] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns offset and shape of a box, by default all of `whole` from the offset on. ValueError: it does not fit."""
    offset = (0,) * len(whole) if offset is None else tuple(offset)
    if len(offset) != len(whole):
        raise ValueError(f"an offset of {len(offset)} numbers in a tensor of {len(whole)} dimensions")
    if shape is None:
        shape = tuple(extent - place for extent, place in zip(whole, offset, strict=True))
    if len(shape) != len(whole) or any(
        place < 0 or extent < 0 or place + extent > bound
        for place, extent, bound in zip(offset, shape, whole, strict=True)
    ):
        raise ValueError(f"a box of {tuple(shape)} at {offset} does not lie in a tensor of {whole}")
    return offset, tuple(shape)


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Returns how many elements lie from the first to the last, both counted."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
