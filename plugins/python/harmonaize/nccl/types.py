"""NCCL's results, element types and operators, with the numbers of nccl.h."""

from __future__ import annotations

import enum


class Result(enum.IntEnum):
    """What a call of NCCL returns."""

    SUCCESS = 0
    UNHANDLED_CUDA_ERROR = 1
    SYSTEM_ERROR = 2
    INTERNAL_ERROR = 3
    INVALID_ARGUMENT = 4
    INVALID_USAGE = 5
    REMOTE_ERROR = 6
    IN_PROGRESS = 7


class DataType(enum.IntEnum):
    """Type of the elements in a buffer. 16-bit floating point is accumulated in float32."""

    INT8 = 0
    UINT8 = 1
    INT32 = 2
    UINT32 = 3
    INT64 = 4
    UINT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9

    @property
    def bytes(self) -> int:
        """The size of an element."""
        return _BYTES[self]


class Operator(enum.IntEnum):
    """How the values of the ranks are combined. Integers wrap around; their average is rounded towards zero."""

    SUM = 0
    PRODUCT = 1
    MAX = 2
    MIN = 3
    AVERAGE = 4


_BYTES = {
    DataType.INT8: 1,
    DataType.UINT8: 1,
    DataType.INT32: 4,
    DataType.UINT32: 4,
    DataType.INT64: 8,
    DataType.UINT64: 8,
    DataType.FLOAT16: 2,
    DataType.FLOAT32: 4,
    DataType.FLOAT64: 8,
    DataType.BFLOAT16: 2,
}
