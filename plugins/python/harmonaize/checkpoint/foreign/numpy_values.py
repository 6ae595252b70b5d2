"""NumPy's arrays and numbers in pickles."""

from __future__ import annotations

import math
import typing

import numpy as np

from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.lazy_tensor import Array, checked_shape
from harmonaize.checkpoint.foreign.stand_ins import StandIn

# Types whose elements are plain numbers. Others could hold objects, or fields with names of the file's choice.
_PLAIN = frozenset({"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"})

# Byte orders: little, big, that of bytes, and this machine's.
_ORDERS = frozenset("<>|=")

# A dtype's state has its version, its byte order, and what plain types do not use.
_LEAST_DTYPE_STATE = 2

# An array's state: version, shape, type, whether the first index runs fastest, and the elements.
_ARRAY_STATE = 5


class NumpyType(StandIn):
    """A type of an array's elements."""

    def __init__(self, code: str) -> None:
        """Takes NumPy's code of the type, such as 'f4'."""
        self._code = code
        self._order = "<"

    def set_state(self, state: object) -> None:
        """Takes the byte order. ForeignFormatError: there is none."""
        order = state[1] if isinstance(state, tuple) and len(state) >= _LEAST_DTYPE_STATE else None
        if not isinstance(order, str) or order not in _ORDERS:
            raise ForeignFormatError("a type of NumPy has no byte order")
        self._order = "<" if order == "=" else order

    @property
    def dtype(self) -> typing.Any:
        """NumPy's type."""
        return np.dtype(self._code) if self._order == "|" else np.dtype(f"{self._order}{self._code}")

    def __repr__(self) -> str:
        """Returns NumPy's name."""
        return f"<{self.dtype}>"


def make_type(arguments: tuple[typing.Any, ...]) -> NumpyType:
    """Returns the type with a code. ForeignFormatError: its elements are no plain numbers."""
    code = arguments[0] if arguments else None
    if not isinstance(code, str) or code not in _PLAIN:
        raise ForeignFormatError(f"arrays of {quoted(code)} are not read, only plain numbers")
    return NumpyType(code)


def make_unfilled(_: tuple[typing.Any, ...]) -> Array:
    """Returns an array that is filled by its state."""
    return np.empty(0, np.uint8)


def fill_array(array: Array, state: object) -> None:
    """Gives an array its shape, type and elements. ForeignFormatError: they do not fit together, or it is no array."""
    if type(array) is not np.ndarray:
        raise ForeignFormatError(f"an object of type {quoted(type(array).__name__)} has none")
    if not isinstance(state, tuple) or len(state) != _ARRAY_STATE:
        raise ForeignFormatError("an array of NumPy has a state that is none")
    _, shape, kind, fortran, data = state
    made = _array(data, kind, shape)
    # The state of one that is whole is sound by construction, and this is how an array changes its shape in place.
    restored: typing.Any = array
    restored.__setstate__((1, made.shape, made.dtype, bool(fortran), made.tobytes()))


def make_from_buffer(arguments: tuple[typing.Any, ...]) -> Array:
    """Returns an array from its elements, as protocol 5 has it. ForeignFormatError: they do not fit together."""
    if len(arguments) != _ARRAY_STATE - 1:
        raise ForeignFormatError("an array of NumPy has other parts than are known")
    data, kind, shape, order = arguments
    flat = _array(data, kind, shape)
    if not isinstance(order, str) or order not in {"C", "F"}:
        raise ForeignFormatError("an array of NumPy has no order of its elements")
    return flat.reshape(-1).reshape(flat.shape, order="F") if order == "F" else flat


def make_scalar(arguments: tuple[typing.Any, ...]) -> typing.Any:
    """Returns a number of NumPy. ForeignFormatError: its bytes are not those of one."""
    if len(arguments) != len(("type", "bytes")):
        raise ForeignFormatError("a number of NumPy has other parts than are known")
    kind, data = arguments
    return _array(data, kind, ())[()]


def _array(data: object, kind: object, shape: object) -> Array:
    shape = checked_shape(shape)
    if not isinstance(kind, NumpyType) or not isinstance(data, bytes | bytearray):
        raise ForeignFormatError("an array of NumPy has no type, or no elements")
    dtype = kind.dtype
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ForeignFormatError(f"an array of NumPy has {len(data)} bytes, which its shape does not")
    return np.frombuffer(bytes(data), dtype).reshape(shape) if data else np.empty(shape, dtype)
