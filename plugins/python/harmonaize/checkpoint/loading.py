"""Reads a state from whatever checkpoint is there: of the job, or one that another program wrote."""

from __future__ import annotations

import ctypes
import math
import os
import pathlib
import typing

from harmonaize.checkpoint.errors import CheckpointError
from harmonaize.checkpoint.filling import Filling
from harmonaize.checkpoint.flattening import State
from harmonaize.checkpoint.piece import Piece
from harmonaize.checkpoint.saved_checkpoint import missing_text, open_checkpoint
from harmonaize.nccl import Communicator

if typing.TYPE_CHECKING:
    from harmonaize.checkpoint.foreign import ForeignCheckpoint

Rename = typing.Callable[[str], str]

# The file that says that a folder is a store of harmonaize-writer.
_STORE_FILE = "harmonaize-store.json"


def load(  # noqa: PLR0913
    state: State,
    communicator: Communicator | None,
    folder: str | os.PathLike[str] | None = None,
    *,
    step: int | None = None,
    strict: bool = True,
    rename: Rename | None = None,
) -> int | None:
    """Fills a state in place, as SavedCheckpoint.read_into does, and returns the step after which it was saved; None:
    the checkpoint does not say.

    The checkpoint is the job's, in memory or in the folder, of a step or the newest. Where the folder is none of ours
    but has a checkpoint of torch.distributed.checkpoint, DeepSpeed or safetensors, or is a file of torch.save or
    safetensors, and the job has none in memory, that one is read: `rename(name)` returns what a name of the state is
    called in it.

    Errors: NoCheckpointError: there is none; CheckpointError: it lacks a name of the state, or has it with another type
    or shape; ForeignFormatError: it is not read here, or not sound; and those of `read_into`.
    """
    has_own = communicator is not None and folder is not None and _has_own(communicator, step)
    foreign = None if folder is None or has_own else _foreign(folder)
    if foreign is not None:
        return _load_foreign(state, foreign, rename or _same, strict=strict)
    with open_checkpoint(communicator, folder, step) as saved:
        saved.read_into(state, strict=strict)
        return saved.step


def _same(name: str) -> str:
    return name


def _foreign(folder: str | os.PathLike[str]) -> ForeignCheckpoint | None:
    """Returns the checkpoint that another program wrote; None: the folder is a store, or is not there."""
    path = pathlib.Path(folder)
    if (path / _STORE_FILE).exists() or not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return None
    # Not at the top: it needs NumPy.
    from harmonaize.checkpoint.foreign import open_foreign  # noqa: PLC0415

    return open_foreign(path)


def _load_foreign(state: State, foreign: ForeignCheckpoint, rename: Rename, *, strict: bool) -> int | None:
    filling = Filling(state)
    missing = [
        name for name in filling.names if rename(name) not in foreign.tensors and rename(name) not in foreign.objects
    ]
    if missing and strict:
        raise CheckpointError(missing_text(foreign.step, missing))
    filling.skip(missing)
    for piece in filling.pieces:
        _read(foreign, rename(piece.name), piece)
    for name in filling.value_names:
        if rename(name) in foreign.objects:
            filling.put(name, foreign.objects[rename(name)])
        else:
            filling.put(name, foreign.read(rename(name)).item())
    filling.finish()
    return foreign.step


def _read(foreign: ForeignCheckpoint, name: str, piece: Piece) -> None:
    """Reads a box of a tensor to the piece's address."""
    tensor = foreign.tensors.get(name)
    if tensor is None:
        raise CheckpointError(f"'{name}' is no tensor in the checkpoint")
    if tensor.type != piece.type or tuple(tensor.shape) != piece.global_shape:
        raise CheckpointError(
            f"'{name}' was saved as {tensor.type.value}{list(tensor.shape)}, and is asked for as "
            f"{piece.type.value}{list(piece.global_shape)}"
        )
    if math.prod(piece.shape) == 0:
        return
    array = foreign.read(name, piece.offset, piece.shape)
    if piece.address is None:
        raise ValueError(f"the piece of '{name}' has no address")
    ctypes.memmove(piece.address, array.ctypes.data, piece.bytes)


def _has_own(communicator: Communicator, step: int | None) -> bool:
    """Returns whether the job has a checkpoint in memory. All ranks get the same answer."""
    try:
        open_checkpoint(communicator, None, step).close()
    except CheckpointError:
        return False
    return True
