"""Copies pieces into memory that the library gives, by NumPy and PyTorch."""

from __future__ import annotations

import ctypes
import sys
import typing

from harmonaize.checkpoint.piece import Piece


def fill_rooms(pieces: typing.Sequence[Piece], rooms: typing.Sequence[int | None]) -> None:
    """Copies each piece's elements to its room. Copies from a device are all under way before any is waited for."""
    devices = set()
    for piece, room in zip(pieces, rooms, strict=True):
        size = piece.bytes
        if size == 0 or room is None:
            continue
        memory = (ctypes.c_ubyte * size).from_address(room)
        if isinstance(piece.data, bytes | bytearray | memoryview):
            ctypes.memmove(memory, bytes(piece.data), size)
        elif _is_tensor(piece.data):
            devices.update(_copy_tensor(piece, memory))
        else:
            _copy_array(piece, memory)
    for device in devices:
        _synchronize(device)


def _is_tensor(data: typing.Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(data, torch.Tensor)


def _copy_tensor(piece: Piece, memory: typing.Any) -> list[typing.Any]:
    """Copies a tensor, and returns its device if that is not the host."""
    import torch  # noqa: PLC0415

    source = piece.source()
    room = torch.frombuffer(memory, dtype=source.dtype).view(piece.shape)
    is_remote = source.device.type != "cpu"
    room.copy_(source, non_blocking=is_remote)
    return [source.device] if is_remote else []


def _synchronize(device: typing.Any) -> None:
    import torch  # noqa: PLC0415

    of_device = getattr(torch, device.type, None)
    if of_device is not None and hasattr(of_device, "synchronize"):
        of_device.synchronize(device)


def _copy_array(piece: Piece, memory: typing.Any) -> None:
    import numpy as np  # noqa: PLC0415

    source = piece.source()
    np.copyto(np.frombuffer(memory, source.dtype).reshape(piece.shape), source)
