"""Tensors whose elements lie in flat pieces one after the other, as ZeRO partitions them."""

from __future__ import annotations

import bisect
import math

import numpy as np

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.lazy_tensor import Array, LazyTensor, checked_box


class FlatRun:
    """Flat tensors, one after the other, as if they were one."""

    def __init__(self, tensors: list[LazyTensor], where: str) -> None:
        """Takes the tensors in order. ForeignFormatError: one is not flat, or they have different types."""
        if not tensors or any(len(tensor.shape) != 1 or tensor.type != tensors[0].type for tensor in tensors):
            raise ForeignFormatError(
                f"{where} has a partition that is not flat, or none, or partitions of different types"
            )
        self.type: ElementType = tensors[0].type
        self._tensors = tensors
        self._begins = [0]
        for tensor in tensors:
            self._begins.append(self._begins[-1] + tensor.count)

    @property
    def count(self) -> int:
        """How many elements they have together."""
        return self._begins[-1]

    def read_into(self, into: Array, begin: int) -> None:
        """Fills a flat array with the elements from `begin` on."""
        done = 0
        place = bisect.bisect_right(self._begins, begin) - 1
        while done < into.size:
            inner = begin + done - self._begins[place]
            part = into[done : done + self._tensors[place].count - inner]
            self._tensors[place].read_into(part, (inner,))
            done += part.size
            place += 1


class FlatTensor:
    """A tensor in row-major order whose elements are cut into ranges of runs."""

    def __init__(self, name: str, shape: tuple[int, ...], pieces: list[tuple[FlatRun, int, int]]) -> None:
        """Takes each piece as its run, its first element there, and its count. ForeignFormatError: they do not fit."""
        self.shape = shape
        self.type: ElementType = pieces[0][0].type
        self._pieces = [piece for piece in pieces if piece[2] > 0]
        self._begins = [0]
        for run, begin, count in self._pieces:
            if begin + count > run.count or run.type != self.type:
                raise ForeignFormatError(f"the partitions of {quoted(name)} are too short, or have different types")
            self._begins.append(self._begins[-1] + count)
        if self._begins[-1] != math.prod(shape):
            raise ForeignFormatError(
                f"the partitions of {quoted(name)} have {self._begins[-1]} elements, and it has {math.prod(shape)}",
            )

    def read(self, offset: tuple[int, ...] | None = None, shape: tuple[int, ...] | None = None) -> Array:
        """Returns the elements of a box, by default all. Whole rows of the first dimension are read. ValueError: it
        does not lie in the tensor.
        """
        offset, shape = checked_box(self.shape, offset, shape)
        if math.prod(shape) == 0:
            return np.empty(shape, self.type.numpy_dtype)
        row = math.prod(self.shape[1:])
        first, rows = (offset[0], shape[0]) if shape else (0, 1)
        flat = np.empty(rows * row, self.type.numpy_dtype)
        self._fill(flat, first * row)
        whole = flat.reshape((rows, *self.shape[1:]) if shape else ())
        inner = tuple(slice(place, place + extent) for place, extent in zip(offset[1:], shape[1:], strict=True))
        return np.ascontiguousarray(whole[(slice(None), *inner)]) if inner else whole

    def _fill(self, into: Array, begin: int) -> None:
        done = 0
        place = bisect.bisect_right(self._begins, begin) - 1
        while done < into.size:
            run, first, count = self._pieces[place]
            inner = begin + done - self._begins[place]
            part = into[done : done + count - inner]
            run.read_into(part, first + inner)
            done += part.size
            place += 1
