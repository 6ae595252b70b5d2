#!/usr/bin/env python3
"""Time from the loss of ranks to the first verified all-reduce of those that are left, and time that a
communicator takes to grow.

    elastic_perf.py [PROGRAMS] [--repeats N]

PROGRAMS is the folder of harmonaized (build/release/bin). The daemons stand for hosts on the loopback device.
All ranks sum floats all the time. Ranks, or a daemon, are ended with SIGKILL; each rank that is left hears of
it from its all-reduce, calls ncclCommShrink with NCCL_SHRINK_ABORT, and sums once more. The time is that
from before the signal until the last of them has its sum. Of that, `told` is the time until the last rank has
its error, `formed` until the last one has its new communicator.

Where this Python has PyTorch and harmonaize_torch, ranks do the same by process groups, which PyTorch's
shrink_group (where it has that) and harmonaize.elastic form anew.
"""

import argparse
import contextlib
import ctypes
import functools
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "integration"), str(ROOT / "plugins" / "python")]

import elastic_torch  # pylint: disable=wrong-import-position
from live_daemons import Daemon  # pylint: disable=wrong-import-position
from live_job import UNIQUE_ID_BYTES, Communicator, Failed, Library  # pylint: disable=wrong-import-position

ELEMENTS = 1000
ABORT = 1  # NCCL_SHRINK_ABORT
# Time that ranks sum before one is lost, in seconds: plans are made, and links are there.
WARM_UP_SECONDS = 0.3
REMARK_BYTES = 4096


def make(library, call, *arguments):
    """The communicator that a call makes, which takes where to put it after `arguments`."""
    handle = ctypes.c_void_p()
    code = call(*arguments, ctypes.byref(handle), None)
    if code != 0:
        raise Failed(call.__name__, code, library.last_error())
    return Communicator(library, handle)


def shrink(communicator, excluded):
    calls = communicator.library.calls
    handle = ctypes.c_void_p()
    code = calls.ncclCommShrink(communicator.handle, (ctypes.c_int * len(excluded))(*excluded),
                                len(excluded), ctypes.byref(handle), None, ABORT)
    if code != 0:
        raise Failed("ncclCommShrink", code, communicator.last_error())
    return Communicator(communicator.library, handle)


def verified_sum(communicator, ranks):
    found = communicator.all_reduce(ELEMENTS)
    if found != ranks:
        raise AssertionError(f"a sum of {ranks} ones is {found}")


class Rank:
    """A process that runs `body(rank)`. It tells the times that it notes, and hears of what comes next."""

    def __init__(self, socket, body):
        said, tells = os.pipe()
        hears, self.hand_over = os.pipe()
        self.process = os.fork()
        if self.process > 0:
            os.close(tells)
            os.close(hears)
            self.said = os.fdopen(said)
            return
        status = 1
        try:
            self.tells, self.hears = tells, hears
            os.environ["HARMONAIZE_SOCKET"] = socket
            body(self)
            status = 0
        except Exception as failure:  # pylint: disable=broad-exception-caught
            print(f"rank of process {os.getpid()}: {failure}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)  # pylint: disable=protected-access

    def tell(self, *times):
        os.write(self.tells, (" ".join(str(one) for one in times) + "\n").encode())

    def hear(self):
        return os.read(self.hears, REMARK_BYTES)

    def times(self):
        said = self.said.readline()
        if not said:
            raise AssertionError(f"the rank of process {self.process} has ended")
        return [int(one) for one in said.split()]

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.said.close()
        os.close(self.hand_over)


def survive(losses, ranks):
    """What a rank does that is left after all losses, each a list of ranks that go at once."""
    def body(rank, library, number, unique_id):
        communicator = library.join(unique_id, ranks, number)
        left = ranks
        verified_sum(communicator, left)
        for lost in losses:
            rank.tell(0)
            try:
                while True:
                    communicator.all_reduce(ELEMENTS)
            except Failed:
                told = time.monotonic_ns()
            if number in lost:
                return
            rest = shrink(communicator, lost)
            formed = time.monotonic_ns()
            left -= len(lost)
            verified_sum(rest, left)
            rank.tell(told, formed, time.monotonic_ns())
            communicator.abort()
            communicator = rest
        rank.hear()
    return body


def join_all(library_path, sockets, body):
    """Ranks of one communicator, of which rank 0 makes the id."""
    hand_over, take = [], []
    for _ in sockets:
        reader, writer = os.pipe()
        take.append(reader)
        hand_over.append(writer)

    def begin(number):
        def run(rank):
            library = Library(library_path)
            if number == 0:
                made = bytes(library.unique_id())
                for writer in hand_over:
                    os.write(writer, made)
            text = os.read(take[number], UNIQUE_ID_BYTES)
            body(rank, library, number, library.id_from(text))
        return run
    ranks = [Rank(socket, begin(number)) for number, socket in enumerate(sockets)]
    for end in take + hand_over:
        os.close(end)
    return ranks


def lose(library_path, sockets, losses, kill):
    """Milliseconds until the ranks that are left are told, have formed, and have summed, for each loss.
    `kill(ranks, lost)` ends ranks."""
    return lose_of(join_all(library_path, sockets, survive(losses, len(sockets))), losses, kill)


def lose_in_torch(socket, count, losses, survive_by):
    """The same of ranks on one host that work by PyTorch."""
    with tempfile.TemporaryDirectory(prefix="harmonaize-elastic-") as folder:
        body = survive_by(losses, count, str(pathlib.Path(folder) / "store"))
        ranks = [Rank(socket, functools.partial(body, number=number)) for number in range(count)]
        return lose_of(ranks, losses, kill_ranks)


def lose_of(all_ranks, losses, kill):
    ranks = dict(enumerate(all_ranks))
    found = []
    try:
        for lost in losses:
            for rank in ranks.values():
                rank.times()
            time.sleep(WARM_UP_SECONDS)
            start = time.monotonic_ns()
            kill([ranks[number] for number in lost], lost)
            left = [ranks[number] for number in ranks if number not in lost]
            times = [rank.times() for rank in left]
            found.append([(max(each) - start) * 1e-6 for each in zip(*times)])
            for number in lost:
                ranks.pop(number).end()
    finally:
        for rank in ranks.values():
            rank.end()
    return found


def grow(library_path, sockets, new_socket):
    """Milliseconds until all have formed, and have summed, when one rank joins."""
    count = len(sockets)
    id_from, id_to = os.pipe()

    def old(rank, library, number, unique_id):
        communicator = library.join(unique_id, count, number)
        for _ in range(20):
            verified_sum(communicator, count)
        if number == 0:
            grow_id = library.id_from(bytes(UNIQUE_ID_BYTES))
            if library.calls.ncclCommGetUniqueId(communicator.handle, ctypes.byref(grow_id)) != 0:
                raise AssertionError(library.last_error())
            os.write(id_to, bytes(grow_id))
        rank.tell(0)
        rank.hear()
        grown = make(library, library.calls.ncclCommGrow, communicator.handle, count + 1, None, -1)
        rank.tell(*sum_now(grown, count + 1))
        rank.hear()

    def new(rank):
        library = Library(library_path)
        grow_id = library.id_from(os.read(id_from, UNIQUE_ID_BYTES))
        rank.tell(0)
        rank.hear()
        grown = make(library, library.calls.ncclCommGrow, None, count + 1, ctypes.byref(grow_id), count)
        rank.tell(*sum_now(grown, count + 1))
        rank.hear()
    ranks = join_all(library_path, sockets, old)
    try:
        ranks.append(Rank(new_socket, new))
        for rank in ranks:
            rank.times()
        start = time.monotonic_ns()
        for rank in ranks:
            os.write(rank.hand_over, b"go")
        times = [rank.times() for rank in ranks]
        return [0.0, *((max(each) - start) * 1e-6 for each in zip(*times))]
    finally:
        for rank in ranks:
            rank.end()
        os.close(id_from)
        os.close(id_to)


def sum_now(communicator, ranks):
    formed = time.monotonic_ns()
    verified_sum(communicator, ranks)
    return formed, time.monotonic_ns()


def kill_ranks(ranks, _):
    for rank in ranks:
        os.kill(rank.process, signal.SIGKILL)


def show(what, found):
    totals = sorted(each[-1] for each in found)
    told, formed, _ = (statistics.median(part) for part in zip(*found))
    print(f"{what:44s} median {statistics.median(totals):7.2f} ms, worst {totals[-1]:7.2f} ms "
          f"(told {told:.2f}, formed {formed:.2f}), {len(totals)} times", flush=True)


def measure_torch(options, socket):
    os.environ["HARMONAIZE_HOME"] = str(options.programs.parent)
    ways = {"elastic.run": elastic_torch.survive_by_elastic}
    if elastic_torch.shrinks():
        ways["shrink_group"] = elastic_torch.survive_by_shrinks
    for way, survive_by in ways.items():
        for count, lost in ((4, [3]), (6, [5]), (6, [3, 5])):
            found = [each for _ in range(options.repeats)
                     for each in lose_in_torch(socket, count, [lost], survive_by)]
            show(f"PyTorch, {way}, {count} ranks: {len(lost)} killed", found)


def measure(options, daemons):
    library = options.programs.parent / "lib" / "libnccl.so.2"
    hosts = [daemon.socket for daemon in daemons]
    eight = [socket for socket in hosts for _ in range(2)]

    def several(sockets, losses):
        return [each for _ in range(options.repeats)
                for each in lose(library, sockets, losses, kill_ranks)]

    for ranks in range(7, 2, -1):
        show(f"one host, {ranks} ranks: one is killed", several(hosts[:1] * ranks, [[ranks - 1]]))
    show("one host, 7 ranks down to 2, one after the other",
         several(hosts[:1] * 7, [[6], [5], [4], [3], [2]]))
    show("4 hosts x 2 ranks: one is killed", several(eight, [[5]]))
    show("4 hosts x 2 ranks: the home's is killed", several(eight, [[0]]))
    show("4 hosts x 2 ranks: three at once", several(eight, [[1, 4, 5]]))
    show("4 hosts x 2 ranks: all but two at once", several(eight, [[0, 1, 2, 4, 5, 6]]))
    show("one host, 6 ranks: grow by one",
         [grow(library, hosts[:1] * 6, hosts[0]) for _ in range(options.repeats)])
    show("4 hosts x 2 ranks: grow by one",
         [grow(library, eight, hosts[1]) for _ in range(options.repeats)])
    show("3 hosts x 2 ranks: grow by one of a new host",
         [grow(library, eight[:6], hosts[3]) for _ in range(options.repeats)])

    def kill_daemon(which):
        def kill(_, __):
            daemons[which].process.kill()
        return kill
    for which, what in ((1, "a daemon"), (0, "the home's daemon")):
        found = []
        for _ in range(options.repeats):
            found += lose(library, eight, [[2 * which, 2 * which + 1]], kill_daemon(which))
            daemons[which].process.wait()
            daemons[which].start()
        show(f"4 hosts x 2 ranks: {what} is killed", found)
    if elastic_torch.is_there():
        measure_torch(options, hosts[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path, nargs="?",
                        default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    options.programs = options.programs.absolute()
    with tempfile.TemporaryDirectory(prefix="harmonaize-elastic-") as name:
        daemons = []
        try:
            for number in range(4):
                daemons.append(Daemon(options.programs, pathlib.Path(name), number))
            measure(options, daemons)
        finally:
            for daemon in daemons:
                daemon.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
