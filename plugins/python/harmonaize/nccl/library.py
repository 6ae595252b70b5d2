"""Harmonaize's library in this process: found, loaded, and its functions with their types."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import pathlib
import typing

from harmonaize.nccl.errors import LibraryError, error_of
from harmonaize.nccl.types import Result

# The preload library has all calls, and answers also when it is loaded beside NVIDIA's NCCL.
_FILE = "libharmonaize-preload.so"
# Where CMAKE_INSTALL_LIBDIR is on Debian, on other systems, and in a build folder.
_FOLDERS = ("lib/x86_64-linux-gnu", "lib64", "lib")

# NCCL_UNIQUE_ID_BYTES of nccl.h.
UNIQUE_ID_BYTES = 128
# NCCL_CONFIG_UNDEF_INT of nccl.h: a member that is not set.
_NOT_SET = -(2**31)


class RawUniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_: typing.ClassVar = [("internal", ctypes.c_byte * UNIQUE_ID_BYTES)]


class RawConfig(ctypes.Structure):
    """ncclConfig_t of NCCL 2.28."""

    _fields_: typing.ClassVar = [
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
        ("cga_cluster_size", ctypes.c_int),
        ("min_ctas", ctypes.c_int),
        ("max_ctas", ctypes.c_int),
        ("net_name", ctypes.c_char_p),
        ("split_share", ctypes.c_int),
        ("traffic_class", ctypes.c_int),
        ("comm_name", ctypes.c_char_p),
        ("collnet_enable", ctypes.c_int),
        ("cta_policy", ctypes.c_int),
        ("shrink_share", ctypes.c_int),
        ("nvls_ctas", ctypes.c_int),
        ("channels_per_net_peer", ctypes.c_int),
        ("nvlink_centric_sched", ctypes.c_int),
    ]

    @classmethod
    def of(cls, name: str | None, *, waits: bool = True) -> RawConfig:
        """Returns a configuration with this name, of a communicator whose calls wait or do not."""
        config = cls(size=ctypes.sizeof(cls), magic=0xCAFEBEEF, version=22800)
        for field in cls._fields_[3:]:
            if field[1] is ctypes.c_int:
                setattr(config, field[0], _NOT_SET)
        config.blocking = int(waits)
        config.comm_name = None if name is None else name.encode()
        return config


_HANDLE, _POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_CONFIG = ctypes.POINTER(RawConfig)
_OUT_HANDLE, _OUT_INT = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int)

# The parameters of each function. All of these return ncclResult_t.
_PARAMETERS: dict[str, list[typing.Any]] = {
    "ncclGetUniqueId": [ctypes.POINTER(RawUniqueId)],
    "ncclCommGetUniqueId": [_HANDLE, ctypes.POINTER(RawUniqueId)],
    "ncclCommInitRankConfig": [_OUT_HANDLE, _INT, RawUniqueId, _INT, _CONFIG],
    "ncclCommSplit": [_HANDLE, _INT, _INT, _OUT_HANDLE, _CONFIG],
    "ncclCommShrink": [_HANDLE, _OUT_INT, _INT, _OUT_HANDLE, _CONFIG, _INT],
    "ncclCommGrow": [_HANDLE, _INT, ctypes.POINTER(RawUniqueId), _INT, _OUT_HANDLE, _CONFIG],
    "ncclCommRevoke": [_HANDLE, _INT],
    "ncclCommDestroy": [_HANDLE],
    "ncclCommAbort": [_HANDLE],
    "ncclCommGetAsyncError": [_HANDLE, _OUT_INT],
    "ncclCommCount": [_HANDLE, _OUT_INT],
    "ncclCommUserRank": [_HANDLE, _OUT_INT],
    "ncclAllReduce": [_POINTER, _POINTER, _SIZE, _INT, _INT, _HANDLE, _POINTER],
    "ncclBroadcast": [_POINTER, _POINTER, _SIZE, _INT, _INT, _HANDLE, _POINTER],
    "ncclAllGather": [_POINTER, _POINTER, _SIZE, _INT, _HANDLE, _POINTER],
    "ncclReduceScatter": [_POINTER, _POINTER, _SIZE, _INT, _INT, _HANDLE, _POINTER],
    "ncclSend": [_POINTER, _SIZE, _INT, _INT, _HANDLE, _POINTER],
    "ncclRecv": [_POINTER, _SIZE, _INT, _INT, _HANDLE, _POINTER],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}


class Library:
    """The functions of the library. ctypes lets other threads of Python run during each call."""

    def __init__(self, functions: ctypes.CDLL, path: str) -> None:
        """Takes the library, which was loaded from `path`. LibraryError: it lacks a function."""
        self.path = path
        self._functions = functions
        self._last_error = self._function("ncclGetLastError", [_HANDLE], ctypes.c_char_p)
        self._use_host_memory = self._function("hzUseHostMemory", [_INT], ctypes.c_int)
        self._calls = {name: self._function(name, types, ctypes.c_int) for name, types in _PARAMETERS.items()}

    @property
    def version(self) -> str:
        """Harmonaize's version."""
        text: bytes = self._function("hzGetVersion", [], ctypes.c_char_p)()
        return text.decode(errors="replace")

    def call(self, name: str, *arguments: typing.Any, communicator: typing.Any = None) -> None:
        """Calls a function of NCCL; `communicator` is the handle whose last error tells why. Errors: NcclError."""
        self.check(name, self._calls[name](*arguments), communicator)

    def optional(self, name: str, types: list[typing.Any]) -> typing.Any:
        """Returns a function that older libraries lack, which returns ncclResult_t. LibraryError: so does this one."""
        return self._function(name, types, ctypes.c_int)

    def has(self, name: str) -> bool:
        """Returns whether the library has a function of this name."""
        return hasattr(self._functions, name)

    def check(self, name: str, code: int, communicator: typing.Any = None) -> None:
        """Raises the NcclError of a call that returned `code`, unless that is success."""
        if code != Result.SUCCESS:
            raise error_of(name, code, self.last_error(communicator))

    def last_error(self, communicator: typing.Any = None) -> str:
        """Returns the sentence of the last error: of a communicator, or of this thread."""
        text: bytes | None = self._last_error(communicator)
        return "" if text is None else text.decode(errors="replace")

    @contextlib.contextmanager
    def host_memory(self) -> typing.Iterator[None]:
        """Has this thread's communicators be the daemon's while the block runs, also in a process that uses GPUs."""
        before = self._use_host_memory(1)
        try:
            yield
        finally:
            self._use_host_memory(before)

    def _function(self, name: str, types: list[typing.Any], result: typing.Any) -> typing.Any:
        try:
            # By index: each access makes an object of its own, with types of its own.
            function = self._functions[name]
        except AttributeError:
            raise LibraryError(
                f"Harmonaize's library {self.path} has no function {name}: it is older than this package. Install both "
                "of one version."
            ) from None
        function.argtypes = types
        function.restype = result
        return function


@functools.cache
def library() -> Library:
    """Returns the process's library: the one that is loaded already, as `harmonaize run` has it, else that of
    HARMONAIZE_HOME, else where the loader looks, LD_LIBRARY_PATH included. LibraryError: there is none.
    """
    # Two copies in one process would be two sessions at the daemon.
    loaded = ctypes.CDLL(None)
    if hasattr(loaded, "hzGetVersion"):
        return Library(loaded, "that is loaded already")
    tried = []
    for path in _candidates():
        try:
            return Library(ctypes.CDLL(path), path)
        except OSError as error:
            tried.append(str(error))
    raise LibraryError(
        f"Harmonaize's library cannot be loaded ({'; '.join(tried)}). Start the program by `harmonaize run`, install "
        "Harmonaize, or set HARMONAIZE_HOME to the folder where it is installed."
    )


def _candidates() -> list[str]:
    """Returns the files to try, the likeliest first."""
    home = os.environ.get("HARMONAIZE_HOME")
    files = [] if not home else [str(pathlib.Path(home) / folder / _FILE) for folder in _FOLDERS]
    return [*files, _FILE]
