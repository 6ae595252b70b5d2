"""Takes what torch.distributed.checkpoint saves."""

from __future__ import annotations

import collections
import io
import os
import typing
import warnings

import torch

from harmonaize.checkpoint.arrays import pieces_of
from harmonaize.checkpoint.checkpointer import Checkpointer
from harmonaize.checkpoint.distributed_tensors import is_distributed
from harmonaize.checkpoint.errors import CheckpointError
from harmonaize.checkpoint.flattening import FlatState, is_array
from harmonaize.checkpoint.names import checked_name
from harmonaize.checkpoint.own_names import pickle_name, plan_name, values_name
from harmonaize.checkpoint.piece import Piece, object_piece
from harmonaize.checkpoint.saved_checkpoint import open_checkpoint
from harmonaize.checkpoint.shard import Shard
from harmonaize.checkpoint.torch import plan_records
from harmonaize.checkpoint.torch.communicators import communicator_of_group
from harmonaize.checkpoint.torch.compatibility import part
from harmonaize.checkpoint.torch.steps import step_of_id, step_of_state
from harmonaize.checkpoint.values import encode_values, is_plain
from harmonaize.nccl import Communicator

_Base: typing.Any = part("storage").StorageWriter

# Checkpointers of this process by communicator, folder and options: PyTorch's programs make a writer for each save, and
# memory and the process that writes are to serve all of them.
_checkpointers: dict[typing.Any, Checkpointer] = {}


class StorageWriter(_Base):  # type: ignore[misc]
    """Saves by a Checkpointer: `dcp.save(state, storage_writer=StorageWriter(folder))`, and the same with
    `dcp.async_save`.

    `save` returns once all ranks have their part in memory; harmonaize-writer goes on to store it. `async_save` copies
    straight into that memory, and its future is done once the checkpoint is stored.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        communicator: Communicator | None = None,
        *,
        step: int | None = None,
        **options: typing.Any,
    ) -> None:
        """Takes the folder of the store, the same for all steps; None: checkpoints stay in memory.

        `communicator` is that of all ranks that save; None: one of the default process group's ranks is made. `step` is
        the step of the next save, and may be set later; without it the step is the number at the end of
        `checkpoint_id`, the state's value 'step', or one more than that of the newest checkpoint. `options` are those
        of Checkpointer.
        """
        super().__init__()
        self.step = step
        self._folder = folder
        self._communicator = communicator
        self._options = options
        self._checkpoint_id: str | os.PathLike[str] | None = None
        self._last: int | None = None
        self._saved_before: int | None = None
        # Steps that were copied, and of which PyTorch's thread has not heard yet.
        self._staged: collections.deque[int] = collections.deque()

    # What PyTorch calls for a save, in this order

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Hears of the id of the checkpoint to be saved. ValueError: it is another step than was copied before."""
        if not self._staged:
            self._checkpoint_id = checkpoint_id
            return
        if step_of_id(checkpoint_id) not in {None, self._staged[0]}:
            raise ValueError(
                f"the checkpoint {checkpoint_id} was saved as step {self._staged.popleft()}: this PyTorch's async_save "
                "tells the id after the copy, so set the writer's 'step' before, or have a value 'step' in the state"
            )

    def init(self, is_coordinator: bool) -> None:  # noqa: FBT001
        """Does what PyTorch 1.13 calls `set_up_storage_writer`."""

    def set_up_storage_writer(self, is_coordinator: bool, *arguments: typing.Any, **named: typing.Any) -> None:  # noqa: FBT001
        """Hears that a save begins."""

    def prepare_local_plan(self, plan: typing.Any) -> typing.Any:
        """Returns the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[typing.Any]) -> list[typing.Any]:
        """Returns the plans as they are."""
        return plans

    def write_data(self, plan: typing.Any, planner: typing.Any) -> typing.Any:
        """Saves this rank's items. Errors: as of Checkpointer.save, and of the planner."""
        done: torch.futures.Future[list[typing.Any]] = torch.futures.Future()
        # What was staged is a state without items.
        if self._staged and not plan.items:
            self.checkpointer.wait(self._staged.popleft(), "memory" if self._folder is None else "storage")
        else:
            # PyTorch has all ranks come together after this, so that all have their part in memory then.
            self._save(self._next_step(None), self._pieces_of_plan(plan, planner))
        result = part("storage").WriteResult
        done.set_result([result(index=item.index, size_in_bytes=0, storage_data=None) for item in plan.items])
        return done

    def finish(self, metadata: typing.Any, results: list[list[typing.Any]]) -> None:
        """Hears at the coordinator that all ranks have saved. What is to be known of the items was saved with them."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:  # noqa: ARG003
        """Returns whether an id may be one: all may."""
        return True

    def storage_meta(self) -> typing.Any:
        """Returns what planners may know of the storage."""
        return part("metadata").StorageMeta(checkpoint_id=self._checkpoint_id)

    # What async_save calls: the writer is an AsyncStager, too

    should_synchronize_after_execute = False
    _synchronize_after_execute = False

    def stage(self, state_dict: typing.Any) -> typing.Any:
        """Copies this rank's part of a state into memory that the daemon keeps, and returns a state without anything:
        nothing is left for PyTorch's thread but to wait. A planner given to async_save sees nothing, therefore; with
        one that changes what is saved, use `save`. Errors: as of Checkpointer.save.
        """
        step = self._next_step(state_dict)
        self._save(step, self._pieces_of_state(state_dict))
        self._staged.append(step)
        return {}

    def synchronize_staging(self) -> None:
        """Has nothing to wait for."""

    def close(self) -> None:
        """Gives the memory back, as Checkpointer.close does: for the end of a training whose checkpoints in memory
        nobody needs any more.
        """
        saver = _checkpointers.pop(self._key(), None)
        if saver is not None:
            saver.close()

    @property
    def checkpointer(self) -> Checkpointer:
        """The Checkpointer that saves: it tells what has become of a step. All writers of one folder have the same."""
        key = self._key()
        saver = _checkpointers.get(key)
        if saver is None:
            saver = Checkpointer(self._ranks(), self._folder, **self._options)
            _checkpointers[key] = saver
        return saver

    def _key(self) -> typing.Any:
        folder = None if self._folder is None else os.fspath(self._folder)
        return (id(self._ranks()), folder, tuple(sorted(self._options.items())))

    def _ranks(self) -> Communicator:
        return communicator_of_group() if self._communicator is None else self._communicator

    def _next_step(self, state: typing.Any) -> int:
        told = step_of_id(self._checkpoint_id)
        step = told if told is not None else self.step
        if step is None and state is not None:
            step = step_of_state(state)
        self._checkpoint_id, self.step = None, None
        if step is None:
            step = self._newest() + 1
        self._last = step
        return step

    def _newest(self) -> int:
        """Returns the last step; that of the job's newest checkpoint at first. -1: there is none."""
        if self._last is None:
            try:
                with open_checkpoint(self._ranks(), self._folder) as saved:
                    self._last = saved.step
            except CheckpointError:
                self._last = -1
        return self._last

    def _save(self, step: int, pieces: list[Piece]) -> None:
        if self._folder is not None and self._saved_before is not None:
            self._tell_failure(self._saved_before)
        self.checkpointer.save_pieces(step, pieces)
        self._saved_before = step
        _close_ended(self._key())

    def _tell_failure(self, step: int) -> None:
        failure = self.checkpointer.state(step).failure
        if failure is not None:
            warnings.warn(f"the checkpoint of step {step} is not stored: {failure}", RuntimeWarning, stacklevel=4)

    # A plan's items

    def _pieces_of_plan(self, plan: typing.Any, planner: typing.Any) -> list[Piece]:
        rank = self._ranks().rank
        pieces: list[Piece] = []
        values: dict[str, typing.Any] = {}
        mappings = getattr(planner, "mappings", None) or {}
        paths: dict[str, typing.Any] = {}
        for item in plan.items:
            name = checked_name(item.index.fqn)
            if name in mappings:
                paths[name] = mappings[name]
            if item.type.name != "BYTE_IO":
                tensor, whole = planner.resolve_data(item), item.tensor_data
                pieces += pieces_of(name, Shard(tensor, tuple(whole.size), tuple(whole.chunk.offsets)), each_once=True)
            elif _keeps_objects(planner) and is_plain(planner.lookup_object(item.index)):
                values[name] = planner.lookup_object(item.index)
            else:
                pieces.append(object_piece(pickle_name(rank, name), planner.resolve_data(item).getvalue()))
        return [*pieces, *_own_objects(rank, values, paths)]

    # A state without a plan

    def _pieces_of_state(self, state: typing.Any) -> list[Piece]:
        rank = self._ranks().rank
        flat = FlatState(state)
        own: list[Piece] = []
        same: list[Piece] = []
        values: dict[str, typing.Any] = {}
        for name, leaf in flat.leaves.items():
            if is_array(leaf.value):
                mine = pieces_of(name, leaf.value, each_once=True)
                (own if is_distributed(leaf.value) or isinstance(leaf.value, Shard) else same).extend(mine)
            elif is_plain(leaf.value):
                values[name] = leaf.value
            else:
                own.append(object_piece(pickle_name(rank, name), _saved_by_torch(leaf.value)))
        paths = {name: leaf.path for name, leaf in flat.leaves.items()}
        divided = self.checkpointer.division.own_part(same)
        return [*own, *(same if divided is None else divided), *_own_objects(rank, values, paths)]


def _close_ended(key: typing.Any) -> None:
    """Closes checkpointers of communicators that were ended: the group has other ranks, and those have saved now."""
    for other, saver in list(_checkpointers.items()):
        if other != key and saver.communicator.ended:
            del _checkpointers[other]
            saver.close()


def _own_objects(rank: int, values: dict[str, typing.Any], paths: dict[str, typing.Any]) -> list[Piece]:
    pieces = [object_piece(plan_name(rank), plan_records.encode(paths))]
    if values:
        pieces.append(object_piece(values_name(rank), encode_values(values)))
    return pieces


def _keeps_objects(planner: typing.Any) -> bool:
    """Returns whether a planner saves objects as they are: PyTorch's own does, and programs may change that."""
    default = part("default_planner").DefaultSavePlanner
    return isinstance(planner, default) and all(
        getattr(type(planner), name) is getattr(default, name)
        for name in ("resolve_data", "lookup_object", "transform_object")
    )


def _saved_by_torch(value: typing.Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()
