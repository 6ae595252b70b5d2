"""Ranks of a job as processes of Python over the NCCL API, so that a test decides between two calls what
each rank does next."""

import ctypes
import os
import signal
import time

NCCL_SUCCESS = 0
INT32, FLOAT32 = 2, 7
SUM, MAX = 0, 2
UNIQUE_ID_BYTES = 128


class Event(ctypes.Structure):
    """hzEvent_t."""
    _fields_ = [("type", ctypes.c_char_p), ("id", ctypes.c_char_p), ("json", ctypes.c_char_p),
                ("missed", ctypes.c_int)]


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""
    _fields_ = [("bytes", ctypes.c_char * UNIQUE_ID_BYTES)]


class Config(ctypes.Structure):
    """ncclConfig_t, of which only the name is set."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("blocking", ctypes.c_int), ("cga_cluster_size", ctypes.c_int),
                ("least_blocks", ctypes.c_int), ("most_blocks", ctypes.c_int),
                ("network", ctypes.c_char_p), ("split_share", ctypes.c_int),
                ("traffic_class", ctypes.c_int), ("name", ctypes.c_char_p),
                ("collnet", ctypes.c_int), ("policy", ctypes.c_int), ("shrink_share", ctypes.c_int),
                ("nvls_blocks", ctypes.c_int), ("channels", ctypes.c_int), ("nvlink", ctypes.c_int)]

    @classmethod
    def named(cls, name):
        config = cls(size=ctypes.sizeof(cls), magic=0xcafebeef, version=22800, name=name.encode())
        for field, kind in cls._fields_[3:]:
            if kind is ctypes.c_int:
                setattr(config, field, -2 ** 31)  # NCCL_CONFIG_UNDEF_INT
        return config


EVENT_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.POINTER(Event), ctypes.c_void_p)


class Failed(Exception):
    """A call that did not return ncclSuccess, with its code and the communicator's last error."""

    def __init__(self, call, code, said):
        super().__init__(f"{call} returned {code}: {said}")
        self.code = code
        self.said = said


class Library:
    """libnccl.so.2 of a build. Load it in the process that uses it: it does not outlive a fork."""

    def __init__(self, path):
        self.calls = ctypes.CDLL(str(path))
        self.calls.ncclGetLastError.restype = ctypes.c_char_p
        self.calls.ncclGetLastError.argtypes = [ctypes.c_void_p]
        self.calls.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId,
                                                ctypes.c_int]
        collective = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self.calls.ncclCommInitRankConfig.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId,
                                                      ctypes.c_int, ctypes.POINTER(Config)]
        self.calls.ncclAllReduce.argtypes = [*collective, ctypes.c_int, ctypes.c_void_p,
                                             ctypes.c_void_p]
        self.calls.ncclReduce.argtypes = [*collective, ctypes.c_int, ctypes.c_int, ctypes.c_void_p,
                                          ctypes.c_void_p]
        for transfer in (self.calls.ncclSend, self.calls.ncclRecv):
            transfer.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                 ctypes.c_void_p, ctypes.c_void_p]
        for end in (self.calls.ncclCommDestroy, self.calls.ncclCommAbort):
            end.argtypes = [ctypes.c_void_p]
        self.calls.hzStreamSynchronize.argtypes = [ctypes.c_void_p]
        self.calls.hzSubscribe.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p,
                                           EVENT_CALLBACK, ctypes.c_void_p, ctypes.c_void_p]
        self.calls.hzNextEvent.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(Event)]
        self.calls.hzUnsubscribe.argtypes = [ctypes.c_void_p]

    def unique_id(self):
        made = UniqueId()
        self._check("ncclGetUniqueId", self.calls.ncclGetUniqueId(ctypes.byref(made)), None)
        return made

    @staticmethod
    def id_from(text):
        """The unique id of these bytes."""
        return UniqueId.from_buffer_copy(text)

    def last_error(self, communicator=None):
        return self.calls.ncclGetLastError(communicator).decode(errors="replace")

    def _check(self, call, code, communicator):
        if code != NCCL_SUCCESS:
            raise Failed(call, code, self.last_error(communicator))

    def join(self, unique_id, ranks, rank, name=""):
        handle = ctypes.c_void_p()
        self._check("ncclCommInitRankConfig", self.calls.ncclCommInitRankConfig(
            ctypes.byref(handle), ranks, unique_id, rank, ctypes.byref(Config.named(name))), None)
        return Communicator(self, handle)

    def stream(self):
        """A host stream."""
        handle = ctypes.c_void_p()
        self._check("hzStreamCreate", self.calls.hzStreamCreate(ctypes.byref(handle)), None)
        return handle

    def synchronize(self, stream):
        self._check("hzStreamSynchronize", self.calls.hzStreamSynchronize(stream), None)

    def memory(self, size):
        """Memory that the daemon shares, of so many bytes."""
        address = ctypes.c_void_p()
        self._check("ncclMemAlloc", self.calls.ncclMemAlloc(ctypes.byref(address),
                                                            ctypes.c_size_t(size)), None)
        return address

    def subscribe(self, communicator, types, after):
        """A subscription without a callback. `communicator` None: all jobs of this user."""
        handle = ctypes.c_void_p()
        self._check("hzSubscribe", self.calls.hzSubscribe(
            communicator.handle if communicator else None, types, after, EVENT_CALLBACK(), None,
            ctypes.byref(handle)), None)
        return handle

    def next_event(self, subscription, timeout_ms):
        """The next event's text; None when none has come in time."""
        event = Event()
        if self.calls.hzNextEvent(subscription, timeout_ms, ctypes.byref(event)) != NCCL_SUCCESS:
            return None
        return event.json.decode()


class Communicator:
    def __init__(self, library, handle):
        self.library = library
        self.handle = handle

    def all_reduce(self, count, kind=FLOAT32, operator=SUM, first=1):
        """Sums ones of every rank, or another first element. Returns the first element of the sum."""
        element = ctypes.c_int32 if kind == INT32 else ctypes.c_float
        data = (element * count)(first)
        self._check("ncclAllReduce", self.library.calls.ncclAllReduce(
            data, data, count, kind, operator, self.handle, None))
        return data[0] if count else None

    def queue_all_reduce(self, memory, count, stream):
        """Queues an all-reduce of floats in place, and does not wait for it."""
        self._check("ncclAllReduce", self.library.calls.ncclAllReduce(
            memory, memory, count, FLOAT32, MAX, self.handle, stream))

    def reduce(self, count, root):
        data = (ctypes.c_float * count)()
        self._check("ncclReduce", self.library.calls.ncclReduce(
            data, data, count, FLOAT32, SUM, root, self.handle, None))

    def last_error(self):
        return self.library.last_error(self.handle)

    def destroy(self):
        self._check("ncclCommDestroy", self.library.calls.ncclCommDestroy(self.handle))

    def abort(self):
        self._check("ncclCommAbort", self.library.calls.ncclCommAbort(self.handle))

    def _check(self, call, code):
        if code != NCCL_SUCCESS:
            raise Failed(call, code, self.last_error())


class Ranks:
    """Processes, one for each rank, forked from this one. `body(library, communicator, rank)` is what
    each does; its return value, or the text of its exception, stands in `said` after `wait`. `name` is
    the communicator's. With `user` the processes are another user's."""

    def __init__(self, library_path, sockets, body, user=None, environment=None, name=""):
        self.processes = []
        self.pipes = []
        count = len(sockets)
        hand_over, take = os.pipe()[::-1]
        for rank in range(count):
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    os.environ["HARMONAIZE_SOCKET"] = sockets[rank]
                    os.environ.update(environment or {})
                    # Before it is another user, who may not reach the file.
                    library = Library(library_path)
                    if user is not None:
                        os.setgroups([])
                        os.setgid(user)
                        os.setuid(user)
                    if rank == 0:
                        unique_id = library.unique_id()
                        for _ in range(count - 1):
                            os.write(hand_over, bytes(unique_id))
                    else:
                        unique_id = UniqueId.from_buffer_copy(os.read(take, UNIQUE_ID_BYTES))
                    said = body(library, library.join(unique_id, count, rank, name), rank)
                    os.write(writer, str(said).encode())
                    status = 0
                except BaseException as error:  # pylint: disable=broad-except
                    os.write(writer, f"{type(error).__name__}: {error}".encode()[:4000])
                finally:
                    os._exit(status)
            os.close(writer)
            self.processes.append(child)
            self.pipes.append(reader)
        os.close(hand_over)
        os.close(take)
        self.statuses = [None] * count
        self.said = [""] * count

    def signal(self, rank, which):
        if self.statuses[rank] is None:
            os.kill(self.processes[rank], which)

    def poll(self):
        """Notes who has ended, and returns whether all have."""
        for rank, process in enumerate(self.processes):
            if self.statuses[rank] is not None:
                continue
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                self.statuses[rank] = os.waitstatus_to_exitcode(status)
                with os.fdopen(self.pipes[rank]) as pipe:
                    self.said[rank] = pipe.read()
        return None not in self.statuses

    def wait(self, seconds):
        """Waits for all ranks; those that do not end are killed. Returns whether all have ended."""
        deadline = time.monotonic() + seconds
        while not self.poll() and time.monotonic() < deadline:
            time.sleep(0.02)
        in_time = None not in self.statuses
        for rank in range(len(self.processes)):
            self.signal(rank, signal.SIGKILL)
        while not self.poll():
            time.sleep(0.02)
        return in_time
