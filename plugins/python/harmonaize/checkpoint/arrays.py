"""Arrays of NumPy and tensors of PyTorch as pieces."""

from __future__ import annotations

import sys
import typing

from harmonaize.checkpoint import distributed_tensors
from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.piece import Piece
from harmonaize.checkpoint.shard import Shape, Shard

# Types for which NumPy has a name only where the package ml_dtypes is there, which PyTorch has by the same.
_EXTENSIONS = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})


def pieces_of(name: str, value: typing.Any, *, each_once: bool) -> list[Piece]:
    """Returns the boxes that this rank has of an array, a tensor or a Shard.

    `each_once`: of elements that several ranks have, by the tensor's own account, it is one rank that has them.

    TypeError: it is of a type that is not kept; ValueError: its boxes do not lie in the tensor.
    """
    if isinstance(value, Shard):
        return [_piece_of_shard(name, value)]
    torch = sys.modules.get("torch")
    if torch is not None:
        if type(value) is torch.Tensor or type(value) is torch.nn.Parameter:
            shape = tuple(value.shape)
            return [_box_of_tensor(name, value, shape, (0,) * len(shape), torch.strided)]
        if distributed_tensors.is_distributed(value):
            boxes = distributed_tensors.boxes_of(name, value, each_once=each_once)
            return [_box(name, box.data, box.global_shape, box.offset) for box in boxes]
    return [_whole(name, value)]


def _piece_of_shard(name: str, shard: Shard) -> Piece:
    data, whole, offset = shard.data, tuple(map(int, shard.global_shape)), tuple(map(int, shard.offset))
    if len(whole) != len(offset) or len(whole) != len(data.shape):
        raise ValueError(f"the Shard of '{name}' has data, global_shape and offset of different numbers of dimensions")
    # Python's numbers do not overflow, so that this is the whole check.
    if any(begin < 0 or begin + have > most for begin, have, most in zip(offset, data.shape, whole, strict=True)):
        raise ValueError(f"the Shard of '{name}', {tuple(data.shape)} at {offset}, does not lie in {whole}")
    return _box(name, data, whole, offset)


def _whole(name: str, data: typing.Any) -> Piece:
    shape = tuple(data.shape)
    return _box(name, data, shape, (0,) * len(shape))


def _box(name: str, data: typing.Any, global_shape: Shape, offset: Shape) -> Piece:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        return _box_of_tensor(name, data, global_shape, offset, torch.strided)
    if numpy is not None and isinstance(data, numpy.ndarray | numpy.generic):
        data = numpy.asarray(data)
        if not data.dtype.isnative or data.dtype.hasobject:
            raise TypeError(f"'{name}' is an array of {data.dtype}, which is no plain memory in this host's byte order")
        kind = _types.get(data.dtype) or _type_of(name, data.dtype)
        address = data.ctypes.data if data.flags.c_contiguous else None
        return Piece(name, kind, global_shape, offset, data.shape, data, address)
    raise TypeError(f"'{name}' is a {type(data).__name__}, and no array of NumPy or tensor of PyTorch")


def _box_of_tensor(name: str, data: typing.Any, global_shape: Shape, offset: Shape, strided: typing.Any) -> Piece:
    """Returns a tensor's piece. It runs for each of a model's tensors, while the training waits."""
    if data.layout is not strided:
        raise TypeError(f"'{name}' is a {data.layout} tensor: save its parts, as by to_dense()")
    kind = _types.get(data.dtype) or _type_of(name, data.dtype)
    shape = tuple(data.shape)
    if data.device.type == "cpu" and data.is_contiguous() and not (data.is_neg() or data.is_conj()):
        return Piece(name, kind, global_shape, offset, shape, data, data.data_ptr())
    return Piece(name, kind, global_shape, offset, shape, data.detach(), None)


# Types by NumPy's and PyTorch's own objects, of those that were met.
_types: dict[typing.Any, ElementType] = {}


def _type_of(name: str, dtype: typing.Any) -> ElementType:
    """Returns the type that NumPy or PyTorch calls so. TypeError: none is."""
    text = str(dtype)
    is_torchs = text.startswith("torch.") or text in _EXTENSIONS
    try:
        _types[dtype] = ElementType.from_torch(text) if is_torchs else ElementType.from_numpy(text)
    except ValueError as error:
        raise TypeError(f"'{name}' has elements of {text}: {error}") from None
    return _types[dtype]
