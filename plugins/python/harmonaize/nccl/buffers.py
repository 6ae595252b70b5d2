"""What an operation reads or writes: NumPy arrays, PyTorch's tensors on the CPU, and arrays of ctypes."""

from __future__ import annotations

import ctypes
import dataclasses
import sys
import typing

from harmonaize.nccl.types import DataType

Data = typing.Any
"""A NumPy array, a tensor on the CPU, or an array of ctypes: `isinstance` cannot name types that are not imported."""

_BY_NAME = {
    "int8": DataType.INT8,
    "uint8": DataType.UINT8,
    "int32": DataType.INT32,
    "uint32": DataType.UINT32,
    "int64": DataType.INT64,
    "uint64": DataType.UINT64,
    "float16": DataType.FLOAT16,
    "float32": DataType.FLOAT32,
    "float64": DataType.FLOAT64,
    "bfloat16": DataType.BFLOAT16,
}
_BY_CTYPE: dict[type, DataType] = {
    ctypes.c_int8: DataType.INT8,
    ctypes.c_uint8: DataType.UINT8,
    ctypes.c_int32: DataType.INT32,
    ctypes.c_uint32: DataType.UINT32,
    ctypes.c_int64: DataType.INT64,
    ctypes.c_uint64: DataType.UINT64,
    ctypes.c_float: DataType.FLOAT32,
    ctypes.c_double: DataType.FLOAT64,
}


@dataclasses.dataclass(frozen=True)
class Buffer:
    """Elements that lie one after the other in memory. `owner` keeps the memory alive."""

    address: int
    count: int
    type: DataType
    owner: Data = dataclasses.field(repr=False, compare=False)


def readable(data: Data) -> Buffer:
    """Returns the elements of `data`, which an operation may read.

    TypeError: it is no array of a type that NCCL knows, is not in this host's memory or byte order; ValueError: its
    elements do not lie one after the other.
    """
    address, size, name = _memory_of(data)
    kind = _BY_CTYPE.get(data._type_) if isinstance(data, ctypes.Array) else _BY_NAME.get(name)
    if kind is None:
        raise TypeError(f"operations have no type for elements of {name}; they know {', '.join(_BY_NAME)}")
    return Buffer(address, size // kind.bytes, kind, data)


def writable(data: Data) -> Buffer:
    """Returns the elements of `data`, which an operation may write. Errors: as of `readable`; ValueError: it may not be
    written.
    """
    _check_writable(data)
    return readable(data)


def bytes_of(data: Data, *, write: bool) -> Buffer:
    """Returns the memory of `data` as bytes, whatever its elements are. Errors: as of `readable` and `writable`."""
    if write:
        _check_writable(data)
    address, size, _ = _memory_of(data)
    return Buffer(address, size, DataType.UINT8, data)


def _check_writable(data: Data) -> None:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(data, numpy.ndarray) and not data.flags.writeable:
        raise ValueError("the array that is to receive may not be written")


def _memory_of(data: Data) -> tuple[int, int, str]:
    """Returns where the elements lie, how many bytes they have together, and their type's name."""
    if isinstance(data, ctypes.Array):
        return ctypes.addressof(data), ctypes.sizeof(data), data._type_.__name__
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(data, numpy.ndarray):
        if not data.dtype.isnative or data.dtype.hasobject:
            raise TypeError(f"an array of {data.dtype} is no plain memory in this host's byte order")
        _check_contiguous(yes=data.flags.c_contiguous)
        return data.ctypes.data, data.nbytes, data.dtype.name
    if torch is not None and isinstance(data, torch.Tensor):
        if data.device.type != "cpu" or data.layout != torch.strided:
            raise TypeError(f"a {data.layout} tensor on {data.device} is not in this host's memory: move it to the CPU")
        _check_contiguous(yes=data.is_contiguous())
        return data.data_ptr(), data.numel() * data.element_size(), str(data.dtype).removeprefix("torch.")
    raise TypeError(f"a {type(data).__name__} is no NumPy array, tensor or array of ctypes")


def _check_contiguous(*, yes: bool) -> None:
    if not yes:
        raise ValueError("the elements do not lie one after the other: make the array contiguous first")
