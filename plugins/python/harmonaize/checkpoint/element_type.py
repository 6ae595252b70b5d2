"""Types of a tensor's elements, with the names of safetensors."""

from __future__ import annotations

import enum
import typing

if typing.TYPE_CHECKING:
    import numpy as np


class ElementType(enum.Enum):
    """Type of a tensor's elements. The value is the name that safetensors gives it.

    NumPy has no bfloat16 and no 8-bit floating point. Arrays of these hold the elements' bits as unsigned integers.
    """

    BOOL = "BOOL"
    U8 = "U8"
    I8 = "I8"
    U16 = "U16"
    I16 = "I16"
    U32 = "U32"
    I32 = "I32"
    U64 = "U64"
    I64 = "I64"
    F16 = "F16"
    BF16 = "BF16"
    F32 = "F32"
    F64 = "F64"
    F8_E4M3 = "F8_E4M3"
    F8_E5M2 = "F8_E5M2"
    C64 = "C64"

    @property
    def bytes(self) -> int:
        """The size of an element."""
        return _FACTS[self].bytes

    @property
    def numpy_name(self) -> str:
        """The name of NumPy's type that holds an element, or its bits where `is_raw`."""
        return _FACTS[self].numpy_name

    @property
    def torch_name(self) -> str:
        """The name of PyTorch's type, without `torch.`."""
        return _FACTS[self].torch_name

    @property
    def is_raw(self) -> bool:
        """Whether NumPy has no such type, so that arrays hold bits."""
        return self in _RAW

    @property
    def numpy_dtype(self) -> np.dtype[typing.Any]:
        """NumPy's type in the byte order of files, which is little-endian."""
        # Not at the top: the package is of use without NumPy.
        import numpy as np  # noqa: PLC0415

        return np.dtype(self.numpy_name).newbyteorder("<")

    @classmethod
    def from_torch(cls, name: str) -> ElementType:
        """Returns the type with PyTorch's name, with or without `torch.`. ValueError: there is none here."""
        found = _BY_TORCH.get(name.removeprefix("torch."))
        if found is None:
            raise ValueError(f"no element type here is PyTorch's '{name}'; there are {', '.join(_BY_TORCH)}")
        return found

    @classmethod
    def from_numpy(cls, dtype: typing.Any) -> ElementType:
        """Returns the type of an array's elements, from NumPy's type or its name. ValueError: there is none here."""
        found = _BY_NUMPY.get(dtype if isinstance(dtype, str) else dtype.name)
        if found is None:
            raise ValueError(f"no element type here is NumPy's '{dtype}'; there are {', '.join(_BY_NUMPY)}")
        return found


class _Facts(typing.NamedTuple):
    bytes: int
    numpy_name: str
    torch_name: str


_FACTS = {
    ElementType.BOOL: _Facts(1, "bool", "bool"),
    ElementType.U8: _Facts(1, "uint8", "uint8"),
    ElementType.I8: _Facts(1, "int8", "int8"),
    ElementType.U16: _Facts(2, "uint16", "uint16"),
    ElementType.I16: _Facts(2, "int16", "int16"),
    ElementType.U32: _Facts(4, "uint32", "uint32"),
    ElementType.I32: _Facts(4, "int32", "int32"),
    ElementType.U64: _Facts(8, "uint64", "uint64"),
    ElementType.I64: _Facts(8, "int64", "int64"),
    ElementType.F16: _Facts(2, "float16", "float16"),
    ElementType.BF16: _Facts(2, "uint16", "bfloat16"),
    ElementType.F32: _Facts(4, "float32", "float32"),
    ElementType.F64: _Facts(8, "float64", "float64"),
    ElementType.F8_E4M3: _Facts(1, "uint8", "float8_e4m3fn"),
    ElementType.F8_E5M2: _Facts(1, "uint8", "float8_e5m2"),
    ElementType.C64: _Facts(8, "complex64", "complex64"),
}
_RAW = frozenset({ElementType.BF16, ElementType.F8_E4M3, ElementType.F8_E5M2})
_BY_TORCH = {facts.torch_name: kind for kind, facts in _FACTS.items()}
_BY_NUMPY = {facts.numpy_name: kind for kind, facts in _FACTS.items() if kind not in _RAW}
