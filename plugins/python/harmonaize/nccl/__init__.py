"""NCCL's operations for NumPy arrays and tensors on the CPU, carried out by the host's daemon.

    from harmonaize import nccl

    communicator = nccl.Communicator.init(unique_id, size, rank)
    communicator.all_reduce(gradients)

It is a thin face of Harmonaize's library, without compiled parts. docs/python.md has an example.
"""

from harmonaize.nccl.buffers import Buffer, bytes_of, readable, writable
from harmonaize.nccl.communicator import Communicator, Forming, UniqueId
from harmonaize.nccl.errors import LibraryError, NcclError, RemoteError, UsageError
from harmonaize.nccl.library import Library, library
from harmonaize.nccl.types import DataType, Operator, Result

__all__ = [
    "Buffer",
    "Communicator",
    "DataType",
    "Forming",
    "Library",
    "LibraryError",
    "NcclError",
    "Operator",
    "RemoteError",
    "Result",
    "UniqueId",
    "UsageError",
    "bytes_of",
    "library",
    "readable",
    "writable",
]
