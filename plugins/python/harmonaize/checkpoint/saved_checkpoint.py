"""A checkpoint that is open for reading."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import re
import types
import typing

from harmonaize.checkpoint import own_names
from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.errors import CheckpointError, NoCheckpointError
from harmonaize.checkpoint.filling import Filling
from harmonaize.checkpoint.flattening import State
from harmonaize.checkpoint.functions import RawInfo, RawShard, functions
from harmonaize.checkpoint.names import RESERVED, folder_bytes
from harmonaize.checkpoint.piece import Piece
from harmonaize.checkpoint.shard import Shape
from harmonaize.checkpoint.shard_table import ShardTable, type_of
from harmonaize.checkpoint.values import decode_values
from harmonaize.nccl import Communicator, NcclError, Result

Array = typing.Any
"""A NumPy array: its type is not named, since NumPy may be installed without its types."""

_NEWEST = -1
# Sentences of the library that tell of no checkpoint, rather than of one that cannot be read.
_NONE_THERE = re.compile(
    "there is no checkpoint|has no committed checkpoint|is no store|cannot open the folder .*: No such file"
)


@dataclasses.dataclass(frozen=True)
class SavedTensor:
    """The type of a saved tensor's elements, and its shape."""

    type: ElementType
    shape: Shape


class SavedCheckpoint:
    """A checkpoint of a job: `step`, `place` ('memory', 'peer' or 'storage'), and `ranks`, how many have saved it.

    `tensors` are what it holds by name. It may be used by one thread at a time; it ends with `close`, or as a context
    manager.
    """

    def __init__(
        self, communicator: Communicator | None, folder: str | os.PathLike[str] | None, step: int | None
    ) -> None:
        """Opens it. `open` is the way to call this."""
        self._functions = functions()
        self._communicator = communicator
        self._handle: ctypes.c_void_p | None = ctypes.c_void_p()
        path = folder_bytes(folder)
        comm = None if communicator is None else communicator.handle
        try:
            self._functions.call(
                "hzCheckpointOpen", comm, path, _NEWEST if step is None else step, ctypes.byref(self._handle)
            )
        except NcclError as error:
            if error.result == Result.SYSTEM_ERROR and _NONE_THERE.search(error.text):
                raise NoCheckpointError(error.text) from error
            raise
        info = RawInfo(ctypes.sizeof(RawInfo))
        self._functions.call("hzCheckpointGetInfo", self._handle, ctypes.byref(info))
        self.step: int = info.step
        self.ranks: int = info.ranks
        self.place: str = info.place.decode()
        self.tensors: dict[str, SavedTensor] = {}
        self._object_sizes: dict[str, int] = {}
        for index in range(info.tensors):
            self._take(index)

    def __enter__(self) -> typing.Self:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    def __repr__(self) -> str:
        """Says which one it is."""
        return f"<SavedCheckpoint of step {self.step} in {self.place}>"

    @functools.cached_property
    def values(self) -> dict[str, typing.Any]:
        """The plain values by name: those of the lowest rank that has saved one. CheckpointError: they are damaged."""
        found: dict[str, typing.Any] = {}
        ranks = {name: own_names.rank_of_values(name) for name in self._object_sizes}
        for name in sorted((name for name, rank in ranks.items() if rank is not None), key=lambda one: ranks[one] or 0):
            try:
                saved = decode_values(self.read_object(name))
            except ValueError as error:
                raise CheckpointError(str(error)) from error
            found = {**saved, **found}
        return found

    @functools.cached_property
    def objects(self) -> typing.Mapping[str, bytes]:
        """The objects by name. Each is read when it is asked for."""
        return Objects(self, [name for name in self._object_sizes if not name.startswith(RESERVED)])

    def read(self, name: str, offset: Shape | None = None, shape: Shape | None = None) -> Array:
        """Returns the elements of a box of a tensor, by default all, as a new array.

        NumPy has no bfloat16 and no 8-bit floating point: for these the array holds bits (`ElementType.is_raw`).

        Errors: ValueError: there is no such tensor; NcclError: the box does not lie in it, was not saved, or is
        damaged.
        """
        # Not at the top: the package is of use without NumPy.
        import numpy as np  # noqa: PLC0415

        tensor = self.tensors.get(name)
        if tensor is None:
            raise ValueError(f"the checkpoint of step {self.step} has no tensor '{name}'")
        offset = (0,) * len(tensor.shape) if offset is None else tuple(offset)
        if shape is None:
            shape = tuple(most - begin for most, begin in zip(tensor.shape, offset, strict=True))
        into = np.empty(shape, tensor.type.numpy_name)
        self.read_pieces([Piece(name, tensor.type, tensor.shape, offset, tuple(shape), into, into.ctypes.data)])
        return into

    def read_into(self, state: State, *, strict: bool = True) -> list[str]:
        """Fills a state in place: arrays, tensors, and the parts that this rank has of each DTensor, ShardedTensor or
        Shard, whatever parts were saved. Bytes and plain values are put in the place of those that mappings and lists
        have, and `load_state_dict` is called for what has a state dictionary.

        `strict`: it is an error if the checkpoint lacks something; else returns the names that it lacks.

        Errors: CheckpointError: it lacks a name, of which nothing was read then; NcclError: a tensor was saved with
        another type or shape, or is damaged; as of `Checkpointer.save` for a state that cannot be.
        """
        filling = Filling(state)
        missing = [name for name in filling.names if not self._has(name)]
        if missing and strict:
            raise CheckpointError(missing_text(self.step, missing))
        filling.skip(missing)
        self.read_pieces(filling.pieces)
        for name in filling.value_names:
            if name in self.values:
                filling.put(name, self.values[name])
            else:
                filling.put(name, self.objects[name])
        filling.finish()
        return missing

    def read_object(self, name: str) -> bytes:
        """Returns an object's bytes. KeyError: there is none of this name. Other errors: as of `read`."""
        size = self._object_sizes[name]
        content = (ctypes.c_ubyte * size)()
        address = ctypes.addressof(content)
        self.read_pieces([Piece(name, ElementType.U8, (size,), (0,), (size,), content, address, is_object=True)])
        return bytes(content)

    def read_pieces(self, pieces: typing.Sequence[Piece]) -> None:
        """Reads boxes into memory, each with an address. Errors: NcclError, as of `read`."""
        if self._handle is None:
            raise ValueError("the checkpoint was closed")
        table = ShardTable(pieces)
        table.point_to(piece.address for piece in pieces)
        self._functions.call("hzCheckpointRead", self._handle, table.raw, len(pieces))

    def close(self) -> None:
        """Closes it. A second call has no effect."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._functions.call("hzCheckpointClose", handle)

    def object_names(self) -> list[str]:
        """Returns the names of all objects, those of the package included."""
        return list(self._object_sizes)

    def _has(self, name: str) -> bool:
        return name in self.tensors or name in self._object_sizes or name in self.values

    def _take(self, index: int) -> None:
        """Takes in what the library says of one tensor or object."""
        raw = RawShard(ctypes.sizeof(RawShard))
        self._functions.call("hzCheckpointTensor", self._handle, index, ctypes.byref(raw))
        shape = tuple(raw.global_shape[: raw.dimensions]) if raw.dimensions > 0 else ()
        name = raw.name.decode()
        if raw.is_object:
            self._object_sizes[name] = shape[0]
        else:
            self.tensors[name] = SavedTensor(type_of(raw), shape)


class Objects(typing.Mapping[str, bytes]):
    """Objects of an open checkpoint, read when they are asked for."""

    def __init__(self, checkpoint: SavedCheckpoint, names: list[str]) -> None:
        """Takes their names."""
        self._checkpoint = checkpoint
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> bytes:
        """Reads an object. Errors: as of `SavedCheckpoint.read_object`."""
        if name not in self._names:
            raise KeyError(name)
        return self._checkpoint.read_object(name)

    def __iter__(self) -> typing.Iterator[str]:
        """Yields the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self._names)


def missing_text(step: int | None, missing: list[str]) -> str:
    """Returns the sentence about names that a checkpoint lacks."""
    which = "the checkpoint" if step is None else f"the checkpoint of step {step}"
    shown = ", ".join(f"'{name}'" for name in missing[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""  # noqa: PLR2004
    return f"{which} has no {shown}{more}; with strict=False the rest is read"


def open_checkpoint(
    communicator: Communicator | None, folder: str | os.PathLike[str] | None = None, step: int | None = None
) -> SavedCheckpoint:
    """Opens the job's checkpoint of a step; None: the newest. It is read from where it is nearest: memory or the
    folder.

    All ranks of the communicator call it, and get the same one. They may be others, and more or fewer, than those that
    have saved it. Without a communicator this process alone looks at the folder alone.

    Errors: NoCheckpointError: there is none; NcclError: it is damaged.
    """
    return SavedCheckpoint(communicator, folder, step)
