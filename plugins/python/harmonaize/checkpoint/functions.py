"""The library's calls for checkpoints, with their structures, as harmonaize.h has them."""

from __future__ import annotations

import ctypes
import enum
import functools
import typing

from harmonaize.nccl.library import Library, library

_INT64S = ctypes.POINTER(ctypes.c_int64)


class RawShard(ctypes.Structure):
    """hzShard_t."""

    _fields_: typing.ClassVar = [
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("is_object", ctypes.c_int),
        ("dimensions", ctypes.c_int),
        ("global_shape", _INT64S),
        ("offset", _INT64S),
        ("shape", _INT64S),
        ("data", ctypes.c_void_p),
    ]


class RawConfig(ctypes.Structure):
    """hzCheckpointerConfig_t."""

    _fields_: typing.ClassVar = [
        ("size", ctypes.c_size_t),
        ("folder", ctypes.c_char_p),
        ("format", ctypes.c_char_p),
        ("keep", ctypes.c_int),
        ("most_bytes_per_second", ctypes.c_double),
        ("linger_seconds", ctypes.c_double),
        ("threads", ctypes.c_int),
    ]


class RawState(ctypes.Structure):
    """hzCheckpointState_t."""

    _fields_: typing.ClassVar = [
        ("size", ctypes.c_size_t),
        ("is_in_memory", ctypes.c_int),
        ("is_at_peer", ctypes.c_int),
        ("is_stored", ctypes.c_int),
        ("has_failed", ctypes.c_int),
        ("failure", ctypes.c_char_p),
    ]


class RawInfo(ctypes.Structure):
    """hzCheckpointInfo_t."""

    _fields_: typing.ClassVar = [
        ("size", ctypes.c_size_t),
        ("step", ctypes.c_uint64),
        ("ranks", ctypes.c_int),
        ("tensors", ctypes.c_size_t),
        ("place", ctypes.c_char_p),
    ]


class SaveFlag(enum.IntFlag):
    """HZ_CHECKPOINT_ flags of a save."""

    NONE = 0
    EPOCH_END = 1


_HANDLE, _SIZE, _INT, _STEP = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint64
_OUT_HANDLE, _SHARDS = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(RawShard)

# The parameters of each function. All of these return ncclResult_t.
_PARAMETERS: dict[str, list[typing.Any]] = {
    "hzCheckpointerCreate": [_HANDLE, ctypes.POINTER(RawConfig), _OUT_HANDLE],
    "hzCheckpointerDestroy": [_HANDLE],
    "hzCheckpointSave": [_HANDLE, _STEP, _INT, _SHARDS, _SIZE],
    "hzCheckpointBegin": [_HANDLE, _STEP, _INT, _SHARDS, _SIZE, _OUT_HANDLE],
    "hzCheckpointCommit": [_HANDLE],
    "hzCheckpointLook": [_HANDLE, _STEP, ctypes.POINTER(RawState)],
    "hzCheckpointOpen": [_HANDLE, ctypes.c_char_p, ctypes.c_int64, _OUT_HANDLE],
    "hzCheckpointGetInfo": [_HANDLE, ctypes.POINTER(RawInfo)],
    "hzCheckpointTensor": [_HANDLE, _SIZE, ctypes.POINTER(RawShard)],
    "hzCheckpointRead": [_HANDLE, _SHARDS, _SIZE],
    "hzCheckpointClose": [_HANDLE],
}


class Functions:
    """The calls. ctypes lets other threads of Python run during each one."""

    def __init__(self, functions: Library) -> None:
        """Takes the library. LibraryError: it is older than checkpoints."""
        self._library = functions
        self._calls = {name: functions.optional(name, types) for name, types in _PARAMETERS.items()}

    def call(self, name: str, *arguments: typing.Any) -> None:
        """Calls a function. Errors: NcclError."""
        self._library.check(name, self._calls[name](*arguments))


@functools.cache
def functions() -> Functions:
    """Returns the calls of the process's library. LibraryError: there is none, or it is older than checkpoints."""
    return Functions(library())
