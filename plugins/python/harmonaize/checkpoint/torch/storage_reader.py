"""Gives torch.distributed.checkpoint what it loads."""

from __future__ import annotations

import io
import os
import typing

import torch

from harmonaize.checkpoint import own_names
from harmonaize.checkpoint.arrays import pieces_of
from harmonaize.checkpoint.errors import CheckpointError
from harmonaize.checkpoint.piece import Piece
from harmonaize.checkpoint.saved_checkpoint import SavedCheckpoint, SavedTensor, open_checkpoint
from harmonaize.checkpoint.shard import Shard
from harmonaize.checkpoint.torch import plan_records
from harmonaize.checkpoint.torch.communicators import communicator_of_group
from harmonaize.checkpoint.torch.compatibility import part, tensor_properties
from harmonaize.checkpoint.torch.steps import step_of_id
from harmonaize.nccl import Communicator

_Base: typing.Any = part("storage").StorageReader


class StorageReader(_Base):  # type: ignore[misc]
    """Reads what a StorageWriter or a Checkpointer has saved: `dcp.load(state, storage_reader=StorageReader(folder))`.

    The ranks may be others, and more or fewer, than those that have saved it. It is read from memory, or from the
    folder.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        communicator: Communicator | None = None,
        *,
        step: int | None = None,
    ) -> None:
        """Takes the folder of the store; None: memory alone is looked at.

        `communicator` is that of all ranks that load; None: one of the default process group's ranks is made, and
        without such a group this process looks at the folder alone. `step` is the step that is wanted; without it that
        is the number at the end of `checkpoint_id`, or the newest.
        """
        super().__init__()
        self.step = step
        self._folder = folder
        self._communicator = communicator
        self._saved: SavedCheckpoint | None = None
        self._pickles: dict[str, str] = {}

    # What PyTorch calls for a load, in this order

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Hears of the id of the checkpoint that is to be loaded."""
        told = step_of_id(checkpoint_id)
        self.step = self.step if told is None else told
        self.close()

    def read_metadata(self, *arguments: typing.Any, **named: typing.Any) -> typing.Any:  # noqa: ARG002
        """Opens the checkpoint, and returns what is in it. Errors: as of `checkpoint.open`."""
        self.close()
        saved = self._saved = open_checkpoint(self._ranks(), self._folder, self.step)
        self._pickles = _pickles_of(saved)
        metadata = part("metadata")
        entries: dict[str, typing.Any] = {name: _entry(metadata, tensor) for name, tensor in saved.tensors.items()}
        for name in (*self._pickles, *saved.values, *saved.objects):
            entries.setdefault(name, metadata.BytesStorageMetadata())
        return metadata.Metadata(state_dict_metadata=entries, planner_data=_paths_of(saved), storage_data={})

    def init(self, metadata: typing.Any, is_coordinator: bool) -> None:  # noqa: FBT001
        """Does what PyTorch 1.13 calls `set_up_storage_reader`."""

    def set_up_storage_reader(
        self,
        metadata: typing.Any,
        is_coordinator: bool,  # noqa: FBT001
        *arguments: typing.Any,
        **named: typing.Any,
    ) -> None:
        """Hears that a load begins."""

    def prepare_local_plan(self, plan: typing.Any) -> typing.Any:
        """Returns the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[typing.Any]) -> list[typing.Any]:
        """Returns the plans as they are."""
        return plans

    def read_data(self, plan: typing.Any, planner: typing.Any) -> typing.Any:
        """Reads what this rank wants. Errors: NcclError: what was saved is damaged; those of the planner."""
        saved = self._saved
        if saved is None:
            raise CheckpointError("no checkpoint is open: read_metadata comes first")
        pieces: list[Piece] = []
        targets: list[tuple[typing.Any, typing.Any, typing.Any]] = []
        for item in plan.items:
            name = item.storage_index.fqn
            if item.type.name == "BYTE_IO":
                planner.load_bytes(item, io.BytesIO(self._object(saved, name)))
                continue
            target = planner.resolve_tensor(item).detach()
            piece, read = _piece(name, saved.tensors[name], target, tuple(item.storage_offsets))
            pieces.append(piece)
            targets.append((item, target, read))
        saved.read_pieces(pieces)
        for item, target, read in targets:
            if read is not target:
                target.copy_(read)
            planner.commit_tensor(item, target)
        self.close()
        done: torch.futures.Future[None] = torch.futures.Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:  # noqa: ARG003
        """Returns whether an id may be one: all may."""
        return True

    def close(self) -> None:
        """Closes the checkpoint, if one is open."""
        saved, self._saved = self._saved, None
        if saved is not None:
            saved.close()

    def _ranks(self) -> Communicator | None:
        if self._communicator is not None:
            return self._communicator
        has_group = torch.distributed.is_available() and torch.distributed.is_initialized()
        return communicator_of_group() if has_group or self._folder is None else None

    def _object(self, saved: SavedCheckpoint, name: str) -> bytes:
        """Returns a value as torch.load reads it."""
        if name in self._pickles:
            return saved.read_object(self._pickles[name])
        stream = io.BytesIO()
        torch.save(saved.values[name] if name in saved.values else saved.objects[name], stream)
        return stream.getvalue()


def _entry(metadata: typing.Any, tensor: SavedTensor) -> typing.Any:
    """Returns a tensor as one chunk: any box of it can be read."""
    size = torch.Size(tensor.shape)
    chunk = metadata.ChunkStorageMetadata(offsets=torch.Size([0] * len(size)), sizes=size)
    dtype = getattr(torch, tensor.type.torch_name, None)
    if dtype is None:
        raise CheckpointError(f"PyTorch {torch.__version__} has no type {tensor.type.torch_name}")
    return metadata.TensorStorageMetadata(properties=tensor_properties(dtype), size=size, chunks=[chunk])


def _piece(name: str, tensor: SavedTensor, target: typing.Any, offset: tuple[int, ...]) -> tuple[Piece, typing.Any]:
    """Returns the piece that is to be read, and the tensor that it is read into: the target, or one beside it."""
    wanted = getattr(torch, tensor.type.torch_name)
    direct = target.dtype == wanted and target.device.type == "cpu" and target.is_contiguous()
    read = target if direct else torch.empty(target.shape, dtype=wanted)
    (piece,) = pieces_of(name, Shard(read, tensor.shape, offset), each_once=False)
    return piece, read


def _pickles_of(saved: SavedCheckpoint) -> dict[str, str]:
    """Returns the objects of values that only torch.load reads, by the values' names: those of the lowest ranks."""
    found = [(one, name) for name in saved.object_names() if (one := own_names.pickled(name)) is not None]
    return {value: name for (_, value), name in sorted(found, reverse=True)}


def _paths_of(saved: SavedCheckpoint) -> dict[str, plan_records.Path]:
    paths: dict[str, plan_records.Path] = {}
    for name in saved.object_names():
        if own_names.rank_of_plan(name) is not None:
            paths.update(plan_records.decode(saved.read_object(name)))
    return paths
