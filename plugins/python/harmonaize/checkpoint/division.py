"""How ranks that all have the same state divide the work of saving it."""

from __future__ import annotations

import typing

from harmonaize.checkpoint.piece import Piece

# Pieces from this size on are divided by rows. A shard's description takes some 200 bytes at each rank.
_DIVIDED_BYTES = 1 << 18


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
