"""Memory of saves that CUDA copies into without a detour."""

from __future__ import annotations

import mmap
import pathlib
import typing

from harmonaize.checkpoint.piece import Piece

# Bytes from which on it pays to pin memory: pinning takes about as long as a copy of it, and serves all later saves.
_LEAST_BYTES = 1 << 20


class Pinning:
    """Memory of this process's saves that is pinned for CUDA."""

    def __init__(self) -> None:
        """Has none at first."""
        # By where it begins: its end, and the file that was mapped there.
        self._pinned: dict[int, tuple[int, str]] = {}

    def pin(self, pieces: typing.Sequence[Piece], rooms: typing.Sequence[int | None]) -> None:
        """Pins the rooms, if any piece comes from a GPU of CUDA. Where that fails, copies take the detour."""
        given = [(room, piece.bytes) for piece, room in zip(pieces, rooms, strict=True) if room and piece.bytes]
        if not any(_is_on_cuda(piece.data) for piece in pieces) or sum(size for _, size in given) < _LEAST_BYTES:
            return
        begin = min(room for room, _ in given) // mmap.PAGESIZE * mmap.PAGESIZE
        end = -(-max(room + size for room, size in given) // mmap.PAGESIZE) * mmap.PAGESIZE
        # The library may have mapped another file at the same place: CUDA would go on to copy into the old one's pages.
        file = _file_at(begin)
        if self._pinned.get(begin) == (end, file):
            return
        if self._pinned.pop(begin, None) is not None:
            _call("cudaHostUnregister", begin)
        if _call("cudaHostRegister", begin, end - begin, 0):
            self._pinned[begin] = (end, file)

    def end(self) -> None:
        """Pins none any more."""
        for begin in self._pinned:
            _call("cudaHostUnregister", begin)
        self._pinned.clear()


def _file_at(address: int) -> str:
    """Returns device and inode of the file that is mapped at an address; "": none is."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        reach, _, _, device, inode = line.split(maxsplit=5)[:5]
        begin, _, end = reach.partition("-")
        if int(begin, 16) <= address < int(end, 16):
            return f"{device} {inode}"
    return ""


def _is_on_cuda(data: typing.Any) -> bool:
    device = getattr(data, "device", None)
    return getattr(device, "type", "") == "cuda"


def _call(name: str, *arguments: int) -> bool:
    import torch  # noqa: PLC0415

    cuda: typing.Any = torch.cuda
    return int(getattr(cuda.cudart(), name)(*arguments)) == 0
