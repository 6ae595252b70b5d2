"""A rank's end of the saving of checkpoints."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import threading
import time
import types
import typing

from harmonaize.checkpoint.arrays import pieces_of
from harmonaize.checkpoint.distributed_tensors import is_distributed
from harmonaize.checkpoint.division import Division
from harmonaize.checkpoint.errors import CheckpointError
from harmonaize.checkpoint.flattening import FlatState, State, is_array
from harmonaize.checkpoint.functions import RawConfig, RawState, SaveFlag, functions
from harmonaize.checkpoint.names import folder_bytes
from harmonaize.checkpoint.own_names import values_name
from harmonaize.checkpoint.piece import Piece, object_piece
from harmonaize.checkpoint.pinning import Pinning
from harmonaize.checkpoint.rooms import fill_rooms
from harmonaize.checkpoint.shard import Shard
from harmonaize.checkpoint.shard_table import ShardTable
from harmonaize.checkpoint.values import encode_values
from harmonaize.nccl import Communicator, RemoteError, Result

Place = typing.Literal["memory", "peer", "storage"]
Folder = str | os.PathLike[str]

# Seconds between two looks at what has become of a save: first, and at most. A look at memory asks the daemon.
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 0.05
# hzCheckpointerConfig_t.keep that leaves it to the job's requirements.
_KEEP_AS_STATED = -1


@dataclasses.dataclass(frozen=True)
class SaveState:
    """What has become of a save. `failure` says why it will not be stored; None: nothing speaks against it."""

    in_memory: bool
    stored: bool
    failure: str | None
    at_peer: bool = False


class Checkpointer:
    """Saves a job's state again and again. All ranks of the communicator make one, and call `save` in the same order.

    A save copies the rank's part into memory that the daemon keeps beyond the rank's end, and goes on; a process of its
    own, harmonaize-writer, stores it in `folder`. As a context manager it gives the memory back where the block ends in
    order; where an exception leaves the block, the last checkpoint stays in the daemon's keeping, for those that come
    after.

    It may be used from several threads.
    """

    def __init__(  # noqa: PLR0913
        self,
        communicator: Communicator,
        folder: Folder | None = None,
        *,
        format: str | None = None,
        keep: int | None = None,
        most_bytes_per_second: float | None = None,
        linger: float = 600.0,
        threads: int = 0,
    ) -> None:
        """Takes the communicator of all ranks, which has to stay until the last save, and the folder of the store,
        which all hosts share; None: checkpoints stay in memory; PROVIDER_STORE: the provider stores them, and what
        follows but for `threads` does not count.

        `format` is the form in which an export takes no copies: 'safetensors', 'dcp' or 'ucp'. The newest `keep`
        checkpoints stay in the folder, and those of an epoch's end; 0: all. None of either: as [checkpoint] of the
        job's requirements states, or else 'safetensors' and 2. The rank's writer writes at most so many bytes a second,
        and for `linger` seconds after the rank's end. `threads` copy; 0: the rank's share of its processors.

        Errors: NcclError, for arguments that none can have, or if there is no harmonaize-writer, or no store of
        the provider's; LibraryError: the
        library is older than checkpoints.
        """
        self._functions = functions()
        self._rank, self._ranks = communicator.rank, communicator.size
        self._lock = threading.Lock()
        self._table: ShardTable | None = None
        self.division = Division(communicator)
        self._pinning = Pinning()
        # Kept: the library's end of the saving uses it.
        self.communicator = communicator
        config = RawConfig(
            ctypes.sizeof(RawConfig),
            folder_bytes(folder),
            None if format is None else format.encode(),
            _KEEP_AS_STATED if keep is None else keep,
            most_bytes_per_second or 0.0,
            linger,
            threads,
        )
        self._handle: ctypes.c_void_p | None = ctypes.c_void_p()
        self._functions.call(
            "hzCheckpointerCreate", communicator.handle, ctypes.byref(config), ctypes.byref(self._handle)
        )

    def __enter__(self) -> typing.Self:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        """Closes it, unless an exception leaves the block: then the daemon keeps the last checkpoint."""
        if kind is None:
            self.close()

    def save(self, step: int, state: State, *, epoch_end: bool = False, replicated: bool = False) -> None:
        """Saves this rank's part of a step's state. Returns once it is copied.

        `state` has values by name, in mappings and lists as deep as it likes, which become names such as
        'model.layers.0.weight'. Arrays and tensors are saved whole, a DTensor, a ShardedTensor or a Shard as the part
        that this rank has; elements that several ranks have may be saved by any of them. Bytes are objects: their name
        stands for one object of the job. Numbers, texts, and lists and dictionaries of these are kept beside, as JSON;
        where ranks have other values under one name, those of the lowest rank count.

        `replicated`: all ranks have the same state, and divide the work. A DTensor, a ShardedTensor and a Shard are
        saved as without it.

        Errors: ValueError for names, or shards, that cannot be; TypeError for values of other types; UsageError if a
        quota of the provider's is used up, or ranks save different steps; RemoteError if a rank is lost.
        """
        own, same, values = pieces_of_state(state)
        # What cannot be kept is told before the ranks come together.
        text = encode_values(values)
        if replicated:
            divided = self.division.own_part(same)
            if divided is None:
                raise ValueError("the state is not replicated: ranks have other names, types or shapes of tensors")
            same = divided
        if values and (self._rank == 0 or not replicated):
            own.append(object_piece(values_name(self._rank), text))
        self.save_pieces(step, [*own, *same], epoch_end=epoch_end)

    def save_pieces(self, step: int, pieces: typing.Sequence[Piece], *, epoch_end: bool = False) -> None:
        """Saves pieces. Errors: NcclError, as of `save`."""
        flags = SaveFlag.EPOCH_END if epoch_end else SaveFlag.NONE
        with self._lock:
            handle = self._alive()
            if self._table is None or not self._table.fits(pieces):
                self._table = ShardTable(pieces)
                # With another layout the library may give memory back, which must not be pinned then.
                self._pinning.end()
            addresses = [_address_of(piece) for piece in pieces]
            if None not in addresses:
                self._table.point_to(addresses)
                self._functions.call("hzCheckpointSave", handle, step, flags, self._table.raw, len(pieces))
                return
            places = (ctypes.c_void_p * len(pieces))()
            self._functions.call("hzCheckpointBegin", handle, step, flags, self._table.raw, len(pieces), places)
            rooms: list[int | None] = list(places)
            self._pinning.pin(pieces, rooms)
            fill_rooms(pieces, rooms)
            self._functions.call("hzCheckpointCommit", handle)

    def state(self, step: int) -> SaveState:
        """Returns what has become of the last save of a step, one of this rank's last 16. It does not wait.

        Errors: NcclError, in particular for another step.
        """
        raw = RawState(ctypes.sizeof(RawState))
        with self._lock:
            self._functions.call("hzCheckpointLook", self._alive(), step, ctypes.byref(raw))
            failure = (raw.failure or b"").decode(errors="replace") if raw.has_failed else None
            return SaveState(bool(raw.is_in_memory), bool(raw.is_stored), failure, bool(raw.is_at_peer))

    def wait(self, step: int, place: Place, timeout: float | None = None) -> None:
        """Waits until the last save of a step is in all ranks' memory, in that of other hosts, too ("peer"), or stored
        in the folder.

        Errors: TimeoutError: it is not within `timeout` seconds; CheckpointError: it will not be stored; ValueError:
        there is no such place; NcclError, as of `state`.
        """
        if place not in {"memory", "peer", "storage"}:
            raise ValueError(f"a checkpoint is in 'memory', at a 'peer' or in 'storage', not in {place!r}")
        until = None if timeout is None else time.monotonic() + timeout
        pause = _FIRST_PAUSE_SECONDS
        while True:
            state = self.state(step)
            if {"memory": state.in_memory, "peer": state.at_peer, "storage": state.stored}[place]:
                return
            if place == "storage" and state.failure is not None:
                raise CheckpointError(f"step {step} will not be stored: {state.failure}")
            if not state.in_memory:
                self._check_ranks()
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"step {step} is not in {place} after {timeout} s")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        """Gives the memory back, and forgets what was saved in it; what is on its way to the folder is still stored. A
        second call has no effect.
        """
        with self._lock:
            handle, self._handle = self._handle, None
            self._pinning.end()
            if handle is not None:
                self._functions.call("hzCheckpointerDestroy", handle)

    def _alive(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise ValueError("the checkpointer was closed")
        return self._handle

    def _check_ranks(self) -> None:
        """Checks that all ranks are there. RemoteError: one is lost, and will not save any more."""
        if self.communicator.ended or self.communicator.async_error() == Result.SUCCESS:
            return
        raise RemoteError("hzCheckpointWait", Result.REMOTE_ERROR, self.communicator.last_error())


def pieces_of_state(state: State) -> tuple[list[Piece], list[Piece], dict[str, typing.Any]]:
    """Returns what a rank saves of a state: pieces that are its own by what the state says, those that it has whole, as
    other ranks may, and the plain values by name. Errors: as of `Checkpointer.save`.
    """
    own: list[Piece] = []
    whole: list[Piece] = []
    values: dict[str, typing.Any] = {}
    for name, leaf in FlatState(state).leaves.items():
        value = leaf.value
        if is_array(value):
            is_own = isinstance(value, Shard) or is_distributed(value)
            (own if is_own else whole).extend(pieces_of(name, value, each_once=True))
        elif isinstance(value, bytes | bytearray | memoryview):
            whole.append(object_piece(name, bytes(value)))
        else:
            values[name] = value
    return own, whole, values


def _address_of(piece: Piece) -> int | None:
    """Returns where the library finds the piece's elements; None: it cannot copy them itself."""
    if isinstance(piece.data, bytes):
        return ctypes.cast(ctypes.c_char_p(piece.data), ctypes.c_void_p).value
    return piece.address
