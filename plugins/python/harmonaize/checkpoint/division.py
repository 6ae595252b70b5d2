"""How ranks that all have the same state divide the work of saving it."""

from __future__ import annotations

import ctypes
import hashlib
import typing

from harmonaize.checkpoint.piece import Piece
from harmonaize.nccl import Communicator

# Pieces from this size on are divided by rows. A shard's description takes some 200 bytes at each rank.
_DIVIDED_BYTES = 1 << 18


class Division:
    """Divides what all ranks of a communicator have. What it has found is kept for the next save of the same."""

    def __init__(self, communicator: Communicator) -> None:
        """Takes the communicator."""
        self._communicator = communicator
        self._forms: list[typing.Any] = []
        self._digest = b""
        self._parts: list[Part] = []

    def own_part(self, pieces: list[Piece]) -> list[Piece] | None:
        """Returns this rank's part of pieces; None: not all ranks have the same ones. All ranks call it.

        RemoteError: a rank is lost.
        """
        ranks = self._communicator.size
        if ranks == 1:
            return pieces
        forms = [piece.form for piece in pieces]
        if not self._digest or forms != self._forms:
            self._forms = forms
            self._digest = hashlib.sha256(repr(forms).encode()).digest()
            self._parts = parts_of(pieces, self._communicator.rank, ranks)
        mine = (ctypes.c_uint8 * len(self._digest))(*self._digest)
        everyones = (ctypes.c_uint8 * (len(self._digest) * ranks))()
        self._communicator.all_gather(mine, everyones)
        return apply(self._parts, pieces) if bytes(everyones) == self._digest * ranks else None


class Part(typing.NamedTuple):
    """A part of a piece, by its place among the pieces: rows of a dimension; `dimension` None: all of it."""

    place: int
    dimension: int | None
    begin: int
    end: int


def parts_of(pieces: typing.Sequence[Piece], rank: int, ranks: int) -> list[Part]:
    """Returns what a rank saves of pieces that all ranks have, so that each element is saved once, and all ranks have
    about as many bytes. All ranks get matching answers for the same pieces.
    """
    mine: list[Part] = []
    loads = [0] * ranks
    small: list[tuple[int, int]] = []
    for place, piece in enumerate(pieces):
        leading = next((at for at, length in enumerate(piece.shape) if length > 1), None)
        if piece.is_object or leading is None or piece.bytes < _DIVIDED_BYTES or piece.shape[leading] < ranks:
            small.append((piece.bytes, place))
            continue
        rows = piece.shape[leading]
        begin, end = (rows * one // ranks for one in (rank, rank + 1))
        mine.append(Part(place, leading, begin, end))
        for one in range(ranks):
            loads[one] += piece.bytes // rows * (rows * (one + 1) // ranks - rows * one // ranks)
    # The largest first, each to the rank that has the least so far.
    for size, place in sorted(small, key=lambda one: (-one[0], one[1])):
        least = loads.index(min(loads))
        loads[least] += size
        if least == rank:
            mine.append(Part(place, None, 0, 0))
    return mine


def apply(parts: typing.Sequence[Part], pieces: typing.Sequence[Piece]) -> list[Piece]:
    """Returns the parts of pieces."""
    return [
        pieces[part.place] if part.dimension is None else pieces[part.place].rows(part.dimension, part.begin, part.end)
        for part in parts
    ]
