"""Sends a copy of a state from one rank to all others, by operations of their communicator."""

from __future__ import annotations

import ctypes
import json
import math
import typing

from harmonaize.elastic.errors import ElasticError
from harmonaize.elastic.snapshot import Snapshot, Tensor
from harmonaize.elastic.state import State
from harmonaize.nccl import Communicator, bytes_of

# Largest description of a state, in bytes: a million tensors have some 100 MiB. It bounds what a rank allocates because
# of a number that it has received.
_MOST_HEADER_BYTES = 1 << 28


def send(communicator: Communicator, snapshot: Snapshot, state: State) -> None:
    """Sends a copy to all other ranks, which call `receive`. RemoteError: a rank is gone."""
    described = [state._describe(tensor) for tensor in snapshot.tensors]  # noqa: SLF001
    header = json.dumps({"tree": snapshot.tree, "tensors": described}).encode()
    communicator.broadcast((ctypes.c_int64 * 1)(len(header)), communicator.rank)
    communicator.broadcast((ctypes.c_uint8 * len(header)).from_buffer_copy(header), communicator.rank)
    for tensor in snapshot.tensors:
        _broadcast_bytes(communicator, tensor, communicator.rank)


def receive(communicator: Communicator, root: int, state: State) -> Snapshot:
    """Returns the copy that rank `root` sends. RemoteError: a rank is gone; ElasticError: it is no copy of a state."""
    length = (ctypes.c_int64 * 1)()
    communicator.broadcast(length, root)
    if not 0 < length[0] <= _MOST_HEADER_BYTES:
        raise ElasticError(f"rank {root} announces a description of {length[0]} bytes")
    text = (ctypes.c_uint8 * length[0])()
    communicator.broadcast(text, root)
    try:
        header = json.loads(bytes(text))
        tensors = [_made(state, *described) for described in header["tensors"]]
        tree = header["tree"]
    except (ValueError, TypeError, KeyError) as error:
        raise ElasticError(f"rank {root} sends what is no state: {error!r}") from error
    for tensor in tensors:
        _broadcast_bytes(communicator, tensor, root)
    return Snapshot(tree, tensors)


def _made(state: State, kind: typing.Any, shape: typing.Any) -> Tensor:
    if not isinstance(kind, str) or not all(isinstance(extent, int) and extent >= 0 for extent in shape):
        raise ValueError("a tensor has a type and extents")
    return state._empty(kind, tuple(shape))  # noqa: SLF001


def _broadcast_bytes(communicator: Communicator, tensor: Tensor, root: int) -> None:
    if math.prod(tensor.shape) > 0:
        buffer = bytes_of(tensor, write=communicator.rank != root)
        communicator.broadcast_buffer(buffer, root)
