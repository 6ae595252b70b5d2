"""PyTorch's tensors and types in pickles."""

from __future__ import annotations

import dataclasses
import typing

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.foreign.byte_source import ByteSource
from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.lazy_tensor import LazyTensor
from harmonaize.checkpoint.foreign.stand_ins import KnownClass, TorchConstant

# Arguments of _rebuild_tensor that say which elements it has: storage, offset, shape, strides.
_PLACE = 4

# Place of the element type among the arguments of _rebuild_tensor_v3, and of the flags after that of each version.
_V3_TYPE = 6
_V2_FLAGS = 6
_V3_FLAGS = 7

# Parts of a storage's id: the word 'storage', its class, its name in the archive, where it was, and its count of
# elements.
_STORAGE_ID = 5


@dataclasses.dataclass(frozen=True)
class StorageClass:
    """A class of storages, by the type of their elements. None: the storage is of bytes."""

    type: ElementType | None


@dataclasses.dataclass(frozen=True)
class Storage:
    """The elements that tensors share."""

    type: ElementType | None
    data: ByteSource


def make_storage(id: object, open_member: typing.Callable[[str], ByteSource]) -> Storage:
    """Returns the storage with an id in a pickle. ForeignFormatError: it is none, or its file has other bytes."""
    if not isinstance(id, tuple) or len(id) != _STORAGE_ID or not isinstance(id[0], str) or id[0] != "storage":
        raise ForeignFormatError("a reference to what is no storage of a tensor")
    _, kind, key, _, count = id
    if isinstance(kind, TorchConstant):
        raise ForeignFormatError(f"tensors of {quoted(kind.name)} are not read: save them as another type")
    if not isinstance(kind, StorageClass) or not isinstance(key, str) or type(count) is not int or count < 0:
        raise ForeignFormatError("a storage of a tensor has no type, name or size")
    data = open_member(key)
    size = 1 if kind.type is None else kind.type.bytes
    if data.size != count * size:
        raise ForeignFormatError(f"the storage {quoted(key)} has {data.size} bytes where {count * size} are announced")
    return Storage(kind.type, data)


def make_tensor(arguments: tuple[typing.Any, ...]) -> LazyTensor:
    """Returns a tensor from `_rebuild_tensor` and `_rebuild_tensor_v2`. ForeignFormatError: it is not sound."""
    if len(arguments) > _V2_FLAGS:
        _check_flags(arguments[_V2_FLAGS])
    return _tensor(arguments, None)


def make_tensor_v3(arguments: tuple[typing.Any, ...]) -> LazyTensor:
    """Returns a tensor from `_rebuild_tensor_v3`, whose storage is of bytes. ForeignFormatError: it is not sound."""
    if len(arguments) <= _V3_TYPE:
        raise ForeignFormatError("a tensor has fewer parts than are known")
    if len(arguments) > _V3_FLAGS:
        _check_flags(arguments[_V3_FLAGS])
    return _tensor(arguments, element_type(arguments[_V3_TYPE]))


def make_parameter(arguments: tuple[typing.Any, ...]) -> LazyTensor:
    """Returns the tensor of a parameter. ForeignFormatError: it has none."""
    if not arguments or not isinstance(arguments[0], LazyTensor):
        raise ForeignFormatError("a parameter is no tensor")
    return arguments[0]


def make_typed(arguments: tuple[typing.Any, ...]) -> LazyTensor:
    """Returns the tensor of `_rebuild_from_type_v2`: a tensor with attributes, which are left out.

    ForeignFormatError: it is of a class that keeps its elements in its own way.
    """
    if len(arguments) != len(("function", "type", "arguments", "state")):
        raise ForeignFormatError("a tensor has other parts than are known")
    function, kind, parts, _ = arguments
    if not isinstance(function, KnownClass) or not isinstance(kind, KnownClass) or kind.name not in _TENSOR_CLASSES:
        raise ForeignFormatError("a tensor is of a class that is not read")
    made = function.make(parts) if function.name in _TENSOR_MAKERS and isinstance(parts, tuple) else None
    if not isinstance(made, LazyTensor):
        raise ForeignFormatError("a tensor is made by what makes no tensors")
    return made


def make_refused(arguments: tuple[typing.Any, ...]) -> typing.NoReturn:
    """Refuses a tensor whose elements do not lie in one storage. ForeignFormatError: always."""
    del arguments
    raise ForeignFormatError(
        "sparse, nested and quantized tensors, and those without elements, are not read: save dense ones"
    )


def make_size(arguments: tuple[typing.Any, ...]) -> tuple[typing.Any, ...]:
    """Returns a shape. ForeignFormatError: it is no tuple."""
    if len(arguments) != 1 or not isinstance(arguments[0], tuple | list):
        raise ForeignFormatError("a shape is no tuple")
    return tuple(arguments[0])


def make_device(arguments: tuple[typing.Any, ...]) -> str:
    """Returns a device's name. ForeignFormatError: it has none."""
    if not arguments or not all(isinstance(part, str | int) for part in arguments):
        raise ForeignFormatError("a device has no name")
    return ":".join(str(part) for part in arguments)


def make_constant(arguments: tuple[typing.Any, ...]) -> TorchConstant:
    """Returns a layout by its name. ForeignFormatError: it has none."""
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise ForeignFormatError("a layout has no name")
    return TorchConstant(arguments[0].removeprefix("torch."))


def element_type(constant: object) -> ElementType:
    """Returns the type of elements of PyTorch's constant. ForeignFormatError: there is none here."""
    if not isinstance(constant, TorchConstant):
        raise ForeignFormatError("a tensor has no type of elements")
    try:
        return ElementType.from_torch(constant.name)
    except ValueError as error:
        raise ForeignFormatError(f"{error}: save it as one of these") from error


_TENSOR_CLASSES = frozenset({"torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"})
_TENSOR_MAKERS = frozenset({"_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"})


def _tensor(arguments: tuple[typing.Any, ...], kind: ElementType | None) -> LazyTensor:
    if len(arguments) < _PLACE:
        raise ForeignFormatError("a tensor has fewer parts than are known")
    storage, offset, shape, strides = arguments[:_PLACE]
    if not isinstance(storage, Storage) or type(offset) is not int or offset < 0:
        raise ForeignFormatError("a tensor has no storage, or no place in it")
    kind = kind or storage.type
    if kind is None or not isinstance(strides, tuple) or not all(type(stride) is int for stride in strides):
        raise ForeignFormatError("a tensor has no type of elements, or no strides")
    begin = min(offset * kind.bytes, storage.data.size)
    return LazyTensor(kind, shape, storage.data.part(begin, storage.data.size - begin), strides)


def _check_flags(flags: object) -> None:
    if flags is not None and (not isinstance(flags, dict) or any(value is not False for value in flags.values())):
        raise ForeignFormatError("a tensor is conjugated or negated where it lies: save it after resolve_conj()")
