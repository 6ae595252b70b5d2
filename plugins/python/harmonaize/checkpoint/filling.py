"""A state that is to be filled from a checkpoint."""

from __future__ import annotations

import sys
import typing

from harmonaize.checkpoint.arrays import pieces_of
from harmonaize.checkpoint.flattening import FlatState, Leaf, State, is_array
from harmonaize.checkpoint.piece import Piece


class Filling:
    """What a state wants of a checkpoint: `pieces` to be read, each with an address, and `value_names` of what replaces
    bytes and plain values.

    Where elements do not lie one after the other in this host's memory, they are read beside, and copied by `finish`.
    """

    def __init__(self, state: State) -> None:
        """Takes the state. Errors: as of `Checkpointer.save`; ValueError: an array may not be written."""
        self._flat = FlatState(state)
        self.pieces: list[Piece] = []
        self.value_names: list[str] = []
        self._beside: list[tuple[Piece, Piece]] = []
        self._numbers: list[tuple[Leaf, typing.Any]] = []
        for name, leaf in self._flat.leaves.items():
            if is_array(leaf.value):
                self._add_array(name, leaf)
            else:
                self.value_names.append(name)

    @property
    def names(self) -> list[str]:
        """All names that are wanted."""
        return list(self._flat.leaves)

    def skip(self, names: typing.Collection[str]) -> None:
        """Wants these no more."""
        if not names:
            return
        left_out = frozenset(names)
        self.pieces = [piece for piece in self.pieces if piece.name not in left_out]
        self.value_names = [name for name in self.value_names if name not in left_out]
        self._beside = [pair for pair in self._beside if pair[0].name not in left_out]
        self._numbers = [pair for pair in self._numbers if ".".join(map(str, pair[0].path)) not in left_out]

    def put(self, name: str, value: typing.Any) -> None:
        """Puts a value in the place of the one that the state has. TypeError: what holds that cannot be changed."""
        self._flat.leaves[name].replace(value)

    def finish(self) -> None:
        """Copies what was read beside, and gives objects with a state dictionary theirs."""
        for target, read in self._beside:
            _copy(target.source(), read.data)
        for leaf, array in self._numbers:
            leaf.replace(array[()])
        self._flat.hand_back()

    def _add_array(self, name: str, leaf: Leaf) -> None:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(leaf.value, numpy.generic):
            # A number of NumPy cannot be written: another one takes its place.
            array = numpy.array(leaf.value)
            self._numbers.append((leaf, array))
            self.pieces += pieces_of(name, array, each_once=False)
            return
        for piece in pieces_of(name, leaf.value, each_once=False):
            if numpy is not None and isinstance(piece.data, numpy.ndarray) and not piece.data.flags.writeable:
                raise ValueError(f"the array '{name}', which is to be filled, may not be written")
            if piece.address is not None:
                self.pieces.append(piece)
                continue
            read = _beside(piece)
            self.pieces.append(read)
            self._beside.append((piece, read))


def _beside(piece: Piece) -> Piece:
    """Returns a piece of new memory on this host for the same elements."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(piece.data, numpy.ndarray):
        data = numpy.empty(piece.shape, piece.data.dtype)
        address = data.ctypes.data
    else:
        import torch  # noqa: PLC0415

        data = torch.empty(piece.shape, dtype=piece.data.dtype)
        address = data.data_ptr()
    return Piece(piece.name, piece.type, piece.global_shape, piece.offset, piece.shape, data, address)


def _copy(target: typing.Any, source: typing.Any) -> None:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(target, numpy.ndarray):
        numpy.copyto(target, source)
    else:
        target.copy_(source)
