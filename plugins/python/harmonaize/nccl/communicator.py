"""Communicators: a rank's end, with operations on arrays."""

from __future__ import annotations

import ctypes
import typing

from harmonaize.nccl.buffers import Buffer, Data, readable, writable
from harmonaize.nccl.library import UNIQUE_ID_BYTES, Library, RawConfig, RawUniqueId, library
from harmonaize.nccl.types import Operator, Result

# NCCL_SHRINK_ABORT of nccl.h.
_SHRINK_ABORT = 1
# Most ranks that hzLostRanks of harmonaize.h stores.
_MOST_LOST_RANKS = 16000
# The color of ranks that stay together in a split.
_ONE_COLOR = 0


class UniqueId:
    """Names a communicator that is to be made. It holds a secret: who has it may take a rank."""

    def __init__(self, content: bytes) -> None:
        """Takes the bytes of another rank's id. ValueError: they are not as many as an id has."""
        if len(content) != UNIQUE_ID_BYTES:
            raise ValueError(f"a unique id has {UNIQUE_ID_BYTES} bytes, not {len(content)}")
        self._content = content

    @classmethod
    def new(cls) -> UniqueId:
        """Returns an id that one rank makes and sends to the others. NcclError: no daemon listens."""
        raw, functions = RawUniqueId(), library()
        with functions.host_memory():
            functions.call("ncclGetUniqueId", ctypes.byref(raw))
        return cls(bytes(raw))

    def __bytes__(self) -> bytes:
        """Returns the id's bytes, to be sent to other ranks."""
        return self._content

    def __repr__(self) -> str:
        """Shows no secret."""
        return "<UniqueId>"

    @property
    def raw(self) -> RawUniqueId:
        """The id as the library takes it."""
        return RawUniqueId.from_buffer_copy(self._content)


class Communicator:
    """One rank's end of a communicator. Operations wait, and let other threads of Python run meanwhile.

    All ranks make collective calls in the same order. Data are NumPy arrays, tensors on the CPU or arrays of ctypes,
    whose elements lie one after the other: TypeError and ValueError otherwise. Other failures are NcclError: UsageError
    where ranks ask for different things, RemoteError where a rank or the daemon is gone.
    """

    def __init__(self, functions: Library, handle: ctypes.c_void_p, name: str) -> None:
        """Takes a handle. `init`, `shrink` and `grow` make communicators."""
        self.name = name
        self._library = functions
        self._handle: ctypes.c_void_p | None = handle
        self.rank = self._number("ncclCommUserRank")
        self.size = self._number("ncclCommCount")

    def __repr__(self) -> str:
        """Says which rank this is."""
        return f"<Communicator {self.name}: rank {self.rank} of {self.size}>"

    @classmethod
    def init(cls, unique_id: UniqueId, size: int, rank: int, name: str = "") -> Communicator:
        """Becomes rank `rank` of `size`, and waits until all have come."""
        functions, handle = library(), ctypes.c_void_p()
        config = RawConfig.of(name)
        with functions.host_memory():
            functions.call(
                "ncclCommInitRankConfig", ctypes.byref(handle), size, unique_id.raw, rank, ctypes.byref(config)
            )
        return cls(functions, handle, name)

    @classmethod
    def join_growth(cls, unique_id: UniqueId, size: int, rank: int, name: str = "") -> Communicator:
        """Becomes rank `rank` of a communicator that grows to `size`, by an id of `growth_id`. Waits for all ranks."""
        functions, handle = library(), ctypes.c_void_p()
        raw, config = unique_id.raw, RawConfig.of(name)
        with functions.host_memory():
            functions.call(
                "ncclCommGrow", None, size, ctypes.byref(raw), rank, ctypes.byref(handle), ctypes.byref(config)
            )
        return cls(functions, handle, name)

    # Operations

    def all_reduce(self, data: Data, out: Data | None = None, op: Operator = Operator.SUM) -> None:
        """Combines the elements of all ranks' `data`, into `out` on every rank; None: in place."""
        source, target = self._pair(data, out)
        _check(source.count == target.count, "all_reduce takes as many elements as it gives")
        self._call("ncclAllReduce", source.address, target.address, source.count, source.type, op)

    def broadcast(self, data: Data, root: int = 0) -> None:
        """Overwrites `data` on every rank with that of rank `root`."""
        buffer = readable(data) if root == self.rank else writable(data)
        self.broadcast_buffer(buffer, root)

    def broadcast_buffer(self, buffer: Buffer, root: int) -> None:
        """Does what `broadcast` does, with memory that has been looked at."""
        self._call("ncclBroadcast", buffer.address, buffer.address, buffer.count, buffer.type, root)

    def all_gather(self, data: Data, out: Data) -> None:
        """Stores the `data` of rank 0, then of rank 1, and so on, into `out` on every rank."""
        source, target = self._pair(data, out)
        _check(source.count * self.size == target.count, "all_gather gives a block for each rank")
        self._call("ncclAllGather", source.address, target.address, source.count, source.type)

    def reduce_scatter(self, data: Data, out: Data, op: Operator = Operator.SUM) -> None:
        """Combines all ranks' `data`, which has a block for each rank, and stores the rank's own block into `out`."""
        source, target = self._pair(data, out)
        _check(target.count * self.size == source.count, "reduce_scatter takes a block for each rank")
        self._call("ncclReduceScatter", source.address, target.address, target.count, source.type, op)

    def send(self, data: Data, to: int) -> None:
        """Sends `data` to a rank, and waits until that one has received it."""
        source = readable(data)
        self._call("ncclSend", source.address, source.count, source.type, to)

    def recv(self, data: Data, source: int) -> None:
        """Receives what a rank sends into `data`."""
        target = writable(data)
        self._call("ncclRecv", target.address, target.count, target.type, source)

    def barrier(self) -> None:
        """Waits until all ranks have come here."""
        self.all_reduce((ctypes.c_int32 * 1)())

    # Other members

    def shrink(self, excluded: typing.Iterable[int], name: str | None = None, *, abort: bool = False) -> Communicator:
        """Returns a communicator without these ranks. All others call it, with equal lists, and wait for each other.

        `abort` ends what is in flight first: for ranks that are gone. This communicator stays, and is to be ended.
        """
        numbers = sorted(set(excluded))
        array = (ctypes.c_int * len(numbers))(*numbers)
        flags = _SHRINK_ABORT if abort else 0
        return self._child("ncclCommShrink", name, array, len(numbers), after=(flags,))

    def growth_id(self) -> UniqueId:
        """Returns the id by which new ranks join in one `grow`. One rank calls it, and sends the id to them."""
        raw = RawUniqueId()
        self._library.call("ncclCommGetUniqueId", self._alive(), ctypes.byref(raw), communicator=self._handle)
        return UniqueId(bytes(raw))

    def grow(self, size: int, unique_id: UniqueId | None = None, name: str | None = None) -> Communicator:
        """Returns a communicator of `size` ranks: these, with their numbers, and new ones. All ranks call it, the one
        that has called `growth_id` with its id. It waits for the new ranks.
        """
        raw = None if unique_id is None else ctypes.byref(unique_id.raw)
        return self._child("ncclCommGrow", name, size, raw, -1)

    def blocking(self, name: str) -> Communicator:
        """Returns a communicator of the same ranks whose operations wait. All ranks call it."""
        return self._child("ncclCommSplit", name, _ONE_COLOR, self.rank)

    # Its end

    def revoke(self) -> None:
        """Ends what is in flight with an error at all ranks. Only shrink, destroy and abort make sense then."""
        self._library.call("ncclCommRevoke", self._alive(), 0, communicator=self._handle)

    def abort(self) -> None:
        """Ends this rank's operations and the communicator, whatever the others do. Any thread may call it; a second
        call has no effect.
        """
        self._end("ncclCommAbort")

    def destroy(self) -> None:
        """Ends the communicator once this rank's operations have completed. A second call has no effect."""
        self._end("ncclCommDestroy")

    @property
    def ended(self) -> bool:
        """Whether `abort` or `destroy` has been called."""
        return self._handle is None

    def async_error(self) -> Result:
        """Returns what has put the communicator out of use; Result.SUCCESS: nothing. It never waits."""
        return Result(self._number("ncclCommGetAsyncError"))

    def last_error(self) -> str:
        """Returns the sentence of the communicator's last error."""
        return self._library.last_error(self._alive())

    def lost_ranks(self) -> frozenset[int]:
        """Returns the ranks that have died, aborted or ended the communicator, or whose host's daemon is lost: those
        that `shrink` has to leave out. It asks the daemon. NcclError: the daemon is gone, or of an earlier release;
        LibraryError: the library is.
        """
        ranks, count = (ctypes.c_int * self.size)(), ctypes.c_int()
        types = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)]
        ask = self._library.optional("hzLostRanks", types)
        self._library.check("hzLostRanks", ask(self._alive(), self.size, ranks, ctypes.byref(count)), self._handle)
        return frozenset(ranks[: min(count.value, _MOST_LOST_RANKS)])

    @property
    def handle(self) -> ctypes.c_void_p:
        """The ncclComm_t, for calls that are not here. UsageError: the communicator was ended."""
        return self._alive()

    def _end(self, call: str) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.call(call, handle)

    def _child(
        self,
        call: str,
        name: str | None,
        *before: typing.Any,
        after: tuple[typing.Any, ...] = (),
    ) -> Communicator:
        """Makes a communicator from this one by a call whose parameters are the parent, `before`, the new handle, its
        configuration, and `after`.
        """
        handle = ctypes.c_void_p()
        name = self.name if name is None else name
        config = RawConfig.of(name)
        # Why it failed is this thread's last error: the parent's may be an older one, such as a loss.
        with self._library.host_memory():
            self._library.call(
                call,
                self._alive(),
                *before,
                ctypes.byref(handle),
                ctypes.byref(config),
                *after,
            )
        return Communicator(self._library, handle, name)

    def _call(self, name: str, *arguments: typing.Any) -> None:
        self._library.call(name, *arguments, self._alive(), None, communicator=self._handle)

    def _number(self, call: str) -> int:
        number = ctypes.c_int()
        self._library.call(call, self._alive(), ctypes.byref(number))
        return number.value

    def _alive(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise ValueError(f"the communicator {self.name} was ended")
        return self._handle

    def _pair(self, data: Data, out: Data | None) -> tuple[Buffer, Buffer]:
        if out is None:
            return (writable(data),) * 2
        source, target = readable(data), writable(out)
        if source.type != target.type:
            raise TypeError(f"the input has elements of {source.type.name}, the output of {target.type.name}")
        return source, target


class Forming:
    """A communicator that forms while the caller does other things, so that a rank may give up waiting."""

    def __init__(self, unique_id: UniqueId, size: int, rank: int, name: str) -> None:
        """Begins to become rank `rank` of `size`."""
        # Another name than that of the communicator that is made from it.
        self.name = f"{name} (forming)"
        self._name = name
        self._library = library()
        self._handle: ctypes.c_void_p | None = ctypes.c_void_p()
        config = RawConfig.of(self.name, waits=False)
        arguments = (ctypes.byref(self._handle), size, unique_id.raw, rank, ctypes.byref(config))
        with self._library.host_memory():
            self._begin("ncclCommInitRankConfig", *arguments)

    def formed(self) -> Communicator | None:
        """Returns the communicator once all ranks have come, else None. Its operations wait. NcclError: it will not
        form.
        """
        state = ctypes.c_int()
        self._library.call("ncclCommGetAsyncError", self._alive(), ctypes.byref(state))
        if state.value == Result.IN_PROGRESS:
            return None
        self._library.check("ncclCommInitRankConfig", state.value, self._handle)
        whole = Communicator(self._library, self._alive(), self.name)
        self._handle = None
        # The other ranks may still be busy with the split when this one is done: `destroy` waits for nobody.
        try:
            return whole.blocking(self._name)
        finally:
            whole.destroy()

    def give_up(self) -> None:
        """Stops waiting: the communicator will not form. A second call has no effect."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.call("ncclCommAbort", handle)

    def _alive(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise ValueError(f"the communicator {self.name} has formed, or this rank has given up")
        return self._handle

    def _begin(self, name: str, *arguments: typing.Any) -> None:
        try:
            self._library.call(name, *arguments)
        except RuntimeError as error:
            if getattr(error, "result", None) != Result.IN_PROGRESS:
                raise


def _check(holds: bool, what: str) -> None:  # noqa: FBT001
    if not holds:
        raise ValueError(what)
