"""The classes that are read from pickles, and what stands for each.

Whoever adds a line adds a class of which a stranger's file may make objects: its stand-in must take any arguments.
"""

from __future__ import annotations

import pathlib
import typing

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.foreign import numpy_values, torch_values
from harmonaize.checkpoint.foreign.errors import ForeignFormatError
from harmonaize.checkpoint.foreign.keys import check_plain_key
from harmonaize.checkpoint.foreign.stand_ins import EnumClass, KnownClass, OrderedMapping, Record, TorchConstant

Arguments = tuple[typing.Any, ...]

# Longest bytes that protocol 2 carries as a text, in characters: generators have states of kilobytes.
_LONGEST_ENCODED = 1 << 20

_MEMORY_FORMATS = {"TORCH_CONTIGUOUS_FORMAT": 0, "TORCH_CHANNELS_LAST": 1, "TORCH_PRESERVE_FORMAT": 2}


def _encoded(arguments: Arguments) -> bytes:
    if len(arguments) != len(("text", "encoding")) or not all(isinstance(part, str) for part in arguments):
        raise ForeignFormatError("bytes that are no text with an encoding")
    text, encoding = arguments
    if encoding != "latin1" or len(text) > _LONGEST_ENCODED:
        raise ForeignFormatError(f"bytes that are no text of latin1, or more than {_LONGEST_ENCODED}")
    try:
        return bytes(text.encode("latin1"))
    except UnicodeEncodeError:
        raise ForeignFormatError("bytes that are no text of latin1") from None


def _empty_or(
    kinds: type | tuple[type, ...], make: typing.Callable[[typing.Any], object]
) -> typing.Callable[[Arguments], object]:
    """Returns what makes an object from nothing, or from one argument of these kinds."""

    def made(arguments: Arguments) -> object:
        if not arguments:
            return make(())
        if len(arguments) > 1 or not isinstance(arguments[0], kinds):
            raise ForeignFormatError("its content is of another type")
        return make(arguments[0])

    return made


def _flat(value: typing.Any) -> typing.Any:
    for item in value:
        check_plain_key(item)
    return value


def _default_mapping(_: Arguments) -> OrderedMapping:
    return OrderedMapping()


def _queue(arguments: Arguments) -> list[object]:
    # Pickles append the items to it later. The bound of its length follows.
    if arguments and not (isinstance(arguments[0], tuple | list) and len(arguments[0]) == 0):
        raise ForeignFormatError("its items are not where pickles have them")
    return []


def _pairs(value: typing.Any) -> OrderedMapping:
    return OrderedMapping(_checked_pairs(value))


def _checked_pairs(value: typing.Any) -> typing.Iterable[tuple[str, object]]:
    pairs = value.items() if isinstance(value, dict) else value
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != len(("key", "value")):
            raise ForeignFormatError("a dictionary has an item that is no pair of a key and a value")
        check_plain_key(pair[0])
        yield pair[0], pair[1]


def _complex(arguments: Arguments) -> complex:
    if len(arguments) != len(("real", "imaginary")) or not all(isinstance(part, float) for part in arguments):
        raise ForeignFormatError("its parts are no numbers")
    return complex(*arguments)


def _path(arguments: Arguments) -> pathlib.PurePosixPath:
    if not all(isinstance(part, str) for part in arguments):
        raise ForeignFormatError("its parts are no texts")
    return pathlib.PurePosixPath(*arguments)


def _member_by_name(arguments: Arguments) -> object:
    # Python 3.11 pickles a member of an enumeration as getattr(class, name). Of anything else getattr gets nothing.
    if len(arguments) != len(("class", "name")) or not isinstance(arguments[0], EnumClass):
        raise ForeignFormatError("getattr is read for members of enumerations alone")
    return arguments[0].member(arguments[1])


def _text(arguments: Arguments) -> str:
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise ForeignFormatError("it is no text")
    return arguments[0]


def _record(name: str) -> KnownClass:
    return KnownClass(name, lambda arguments: Record(name, arguments))


def _plain() -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {
        ("collections", "OrderedDict"): KnownClass("OrderedDict", _empty_or((dict, list, tuple), _pairs)),
        ("collections", "Counter"): KnownClass("Counter", _empty_or((dict, tuple), _pairs)),
        ("collections", "defaultdict"): KnownClass("defaultdict", _default_mapping),
        ("collections", "deque"): KnownClass("deque", _queue),
        ("argparse", "Namespace"): _record("Namespace"),
        ("types", "SimpleNamespace"): _record("SimpleNamespace"),
        ("_codecs", "encode"): KnownClass("_codecs.encode", _encoded),
    }
    for module in ("builtins", "__builtin__"):
        for name, kinds, make in (
            ("set", (list, tuple), lambda value: set(_flat(value))),
            ("frozenset", (list, tuple), lambda value: frozenset(_flat(value))),
            ("bytearray", (bytes,), bytearray),
            ("bytes", (bytes,), bytes),
        ):
            found[module, name] = KnownClass(name, _empty_or(kinds, make))
        for name in ("dict", "list", "tuple", "int", "float", "str", "bool"):
            found[module, name] = KnownClass(name, _not_made)
        found[module, "complex"] = KnownClass("complex", _complex)
        found[module, "getattr"] = KnownClass("getattr", _member_by_name)
    for module in ("pathlib", "pathlib._local"):
        for name in ("PosixPath", "PurePosixPath"):
            found[module, name] = KnownClass(name, _path)
    return found


def _not_made(_: Arguments) -> typing.NoReturn:
    raise ForeignFormatError("pickles name it, but do not call it")


def _numpy() -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {
        ("numpy", "dtype"): KnownClass("numpy.dtype", numpy_values.make_type),
        ("numpy", "ndarray"): KnownClass("numpy.ndarray", _not_made),
    }
    for core in ("numpy.core", "numpy._core"):
        found[f"{core}.multiarray", "_reconstruct"] = KnownClass("numpy._reconstruct", numpy_values.make_unfilled)
        found[f"{core}.multiarray", "scalar"] = KnownClass("numpy.scalar", numpy_values.make_scalar)
        found[f"{core}.numeric", "_frombuffer"] = KnownClass("numpy._frombuffer", numpy_values.make_from_buffer)
    return found


# PyTorch's types of elements that pickles may name. Tensors of those that ElementType lacks are refused by name.
_TORCH_TYPES = (
    *(kind.torch_name for kind in ElementType),
    *("complex32", "complex128", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"),
    *("quint8", "qint8", "qint32", "quint4x2", "quint2x4", "bits8"),
)
_STORAGES = {
    "BoolStorage": ElementType.BOOL,
    "ByteStorage": ElementType.U8,
    "CharStorage": ElementType.I8,
    "ShortStorage": ElementType.I16,
    "IntStorage": ElementType.I32,
    "LongStorage": ElementType.I64,
    "HalfStorage": ElementType.F16,
    "BFloat16Storage": ElementType.BF16,
    "FloatStorage": ElementType.F32,
    "DoubleStorage": ElementType.F64,
    "ComplexFloatStorage": ElementType.C64,
    "UntypedStorage": None,
}

# Storages of types that ElementType lacks. They are here to be refused by their type.
_OTHER_STORAGES = {
    "ComplexDoubleStorage": "complex128",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
}


def _torch() -> dict[tuple[str, str], object]:
    make = torch_values
    found: dict[tuple[str, str], object] = {
        ("torch", "Size"): KnownClass("torch.Size", make.make_size),
        ("torch", "device"): KnownClass("torch.device", make.make_device),
        ("torch", "Tensor"): KnownClass("torch.Tensor", _not_made),
        ("torch.nn.parameter", "Parameter"): KnownClass("torch.nn.parameter.Parameter", _not_made),
        ("torch.nn.parameter", "Buffer"): KnownClass("torch.nn.parameter.Buffer", _not_made),
        ("torch.serialization", "_get_layout"): KnownClass("_get_layout", make.make_constant),
        ("torch._tensor", "_rebuild_from_type_v2"): KnownClass("_rebuild_from_type_v2", make.make_typed),
        ("torch.torch_version", "TorchVersion"): KnownClass("TorchVersion", _text),
    }
    makers: dict[str, typing.Callable[[Arguments], object]] = {
        "_rebuild_tensor": make.make_tensor,
        "_rebuild_tensor_v2": make.make_tensor,
        "_rebuild_tensor_v3": make.make_tensor_v3,
        "_rebuild_parameter": make.make_parameter,
        "_rebuild_parameter_with_state": make.make_parameter,
        "_rebuild_sparse_tensor": make.make_refused,
        "_rebuild_sparse_csr_tensor": make.make_refused,
        "_rebuild_nested_tensor": make.make_refused,
        "_rebuild_qtensor": make.make_refused,
        "_rebuild_meta_tensor_no_storage": make.make_refused,
    }
    found.update({("torch._utils", name): KnownClass(name, one) for name, one in makers.items()})
    found.update({("torch", name): TorchConstant(name) for name in _TORCH_TYPES})
    found.update({("torch", name): TorchConstant(kind) for name, kind in _OTHER_STORAGES.items()})
    for name, kind in _STORAGES.items():
        found["torch", name] = found["torch.storage", name] = make.StorageClass(kind)
    return found


def _distributed() -> dict[tuple[str, str], object]:
    """The classes of `.metadata`. PyTorch 1.13 has them below `_shard`, and 2.0 and 2.1 the properties alone."""
    found: dict[tuple[str, str], object] = {}
    sharded = "torch.distributed._shard.sharded_tensor.metadata"
    for package in ("torch.distributed.checkpoint", "torch.distributed._shard.checkpoint"):
        for name in (
            *("Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata"),
            *("MetadataIndex", "StorageMeta", "TensorProperties"),
        ):
            found[f"{package}.metadata", name] = _record(name)
        found[f"{package}.filesystem", "_StorageInfo"] = _record("_StorageInfo")
    found[sharded, "TensorProperties"] = _record("TensorProperties")
    found[sharded, "MEM_FORMAT_ENCODING"] = EnumClass("MEM_FORMAT_ENCODING", _MEMORY_FORMATS)
    found["torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING"] = EnumClass(
        "_MEM_FORMAT_ENCODING", _MEMORY_FORMATS
    )
    return found


def _deepspeed() -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {
        ("deepspeed.checkpoint.universal_checkpoint", "SubparamShape"): _record("SubparamShape"),
        ("deepspeed.utils.tensor_fragment", "fragment_address"): _record("fragment_address"),
        ("deepspeed.utils.tensor_fragment", "tensor_fragment"): _record("tensor_fragment"),
    }
    for name in ("LossScaler", "DynamicLossScaler", "LossScalerBase"):
        found["deepspeed.runtime.fp16.loss_scaler", name] = _record(name)
    found["deepspeed.runtime.zero.config", "ZeroStageEnum"] = EnumClass(
        "ZeroStageEnum", {"disabled": 0, "optimizer_states": 1, "gradients": 2, "weights": 3, "max_stage": 3}
    )
    return found


KNOWN_CLASSES: typing.Final[typing.Mapping[tuple[str, str], object]] = {
    **_plain(),
    **_numpy(),
    **_torch(),
    **_distributed(),
    **_deepspeed(),
}
"""What stands for each name that a pickle may have, by its module and its name there."""
