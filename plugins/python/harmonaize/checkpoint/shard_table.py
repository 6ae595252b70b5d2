"""Pieces as the library takes them. What stays the same from save to save is made once."""

from __future__ import annotations

import ctypes
import typing

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.functions import RawShard
from harmonaize.checkpoint.piece import Piece

_NUMBERS = {kind: number for number, kind in enumerate(ElementType)}
_TYPES = dict(enumerate(ElementType))


class ShardTable:
    """An array of hzShard_t for pieces of certain forms."""

    def __init__(self, pieces: typing.Sequence[Piece]) -> None:
        """Takes the forms of pieces."""
        self._forms = [piece.form for piece in pieces]
        self.raw = (RawShard * len(pieces))()
        # ctypes keeps alive what is assigned to a structure's members.
        for raw, piece in zip(self.raw, pieces, strict=True):
            dimensions = len(piece.global_shape)
            lengths = ctypes.c_int64 * dimensions
            raw.size = ctypes.sizeof(RawShard)
            raw.name = piece.name.encode()
            raw.type = _NUMBERS[piece.type]
            raw.is_object = int(piece.is_object)
            raw.dimensions = dimensions
            raw.global_shape = lengths(*piece.global_shape)
            raw.offset = lengths(*piece.offset)
            raw.shape = lengths(*piece.shape)

    def fits(self, pieces: typing.Sequence[Piece]) -> bool:
        """Returns whether the pieces have the forms for which the table was made."""
        return len(pieces) == len(self._forms) and all(
            piece.form == form for piece, form in zip(pieces, self._forms, strict=True)
        )

    def point_to(self, addresses: typing.Iterable[int | None]) -> None:
        """Sets where the elements lie."""
        for raw, address in zip(self.raw, addresses, strict=True):
            raw.data = address


def type_of(raw: RawShard) -> ElementType:
    """Returns the type of a shard's elements."""
    return _TYPES[raw.type]
