"""A daemon of a test's own, in a temporary folder, and jobs at it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing

import harmonaize

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("HARMONAIZE_BUILD", HERE.parents[1] / "build" / "release"))
PROGRAMS = BUILD / "bin"

# Bounds every wait of a test, in seconds. Only a fault takes so long.
PATIENCE_SECONDS = 60.0
# A user that no host has.
OTHER_USER = 64011

T = typing.TypeVar("T")


def eventually(what: str, holds: typing.Callable[[], T | None]) -> T:
    """Waits until `holds()` is true, and returns what it returned."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"in {PATIENCE_SECONDS} s it did not come about that {what}")
        time.sleep(0.02)


class Daemon:
    """A daemon that may be stopped and started again with the same state."""

    def __init__(self, folder: pathlib.Path, config: str = "") -> None:
        """Starts it, with these lines in its configuration."""
        folder.chmod(0o755)
        self.folder = folder
        self.socket = folder / "d.sock"
        self.log = folder / "log"
        self.config = folder / "provider.toml"
        self.config.write_text("[calibration]\nagain = false\n" + config)
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [str(PROGRAMS / "harmonaized"), "--socket", str(self.socket), "--config", str(self.config)],
                stdout=log,
                stderr=log,
                env=dict(os.environ, STATE_DIRECTORY=str(self.folder / "state")),
            )
        eventually("the daemon listens", self._listens)

    def _listens(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon did not come up: {self.log.read_text()}")
        return "listens at" in self.log.read_text()

    def stop(self) -> None:
        """Ends the daemon, which has to end in order."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE_SECONDS)
        if status != 0:
            raise AssertionError(f"the daemon ended with {status}: {self.log.read_text()}")

    def client(self) -> harmonaize.Client:
        """A client of this user."""
        return harmonaize.connect(self.socket)

    def operator(self) -> harmonaize.Client:
        """A client for operators."""
        return harmonaize.connect(self.socket, as_operator=True)

    @property
    def port(self) -> int:
        """The port at which it listens over TCP."""
        found = re.search(r" HTTPS? at \S+:(\d+)$", self.log.read_text(), re.MULTILINE)
        if found is None:
            raise AssertionError(f"the daemon does not listen over TCP: {self.log.read_text()}")
        return int(found[1])

    def tell(self, job: str, text: str, **data: typing.Any) -> None:
        """Tells a job of an event."""
        data = {"ranks": [0], "state": "began", "kind": "power", **data, "text": text}
        self.operator().call("POST", "/v1/events", {"job": job, "type": "power.limited", "data": data})

    def announce(self, seconds: float, **announcement: typing.Any) -> str:
        """Announces maintenance that begins in so many seconds. Returns its id."""
        begins = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        made = self.operator().call("POST", "/v1/hosts/this/maintenance", {"not_before": begins, **announcement})
        return str(made["id"])

    def withdraw(self, maintenance: str) -> None:
        """Calls off what was announced."""
        self.operator().call("POST", "/v1/hosts/this/maintenance", {"id": maintenance, "state": "withdrawn"})


@contextlib.contextmanager
def daemon_in_folder(config: str = "") -> typing.Iterator[Daemon]:
    """A daemon that ends with the block."""
    with tempfile.TemporaryDirectory(prefix="harmonaize-") as name:
        one = Daemon(pathlib.Path(name), config)
        try:
            yield one
        finally:
            one.stop()


class Job:
    """Ranks that wait for orders."""

    def __init__(self, daemon: Daemon, name: str, size: int) -> None:
        """Starts the ranks, and waits until all have joined."""
        self.name = name
        self.processes: list[subprocess.Popen[str]] = []
        environment = dict(os.environ, HARMONAIZE_SOCKET=str(daemon.socket), HARMONAIZE_JOB=name)
        environment["HARMONAIZE_INLINE"] = "0"
        unique_id = ""
        for rank in range(size):
            command = [sys.executable, str(HERE / "rank_process.py"), str(BUILD / "lib" / "libnccl.so.2")]
            process = subprocess.Popen(
                [*command, str(rank), str(size)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            self.processes.append(process)
            if rank == 0:
                unique_id = self._read(0)
            else:
                self._write(rank, unique_id)
        for rank in range(size):
            assert self._read(rank) == "joined"
        client = daemon.client()
        # What the daemon answers about jobs may be some tenths of a second old.
        self.id = eventually(
            "the job is listed",
            lambda: next((job.id for job in client.jobs() if job.name == name and not job.ended), ""),
        )

    def reduce(self, *ranks: int) -> None:
        """Lets these ranks, or all, begin an all-reduce."""
        for rank in ranks or range(len(self.processes)):
            self._write(rank, "reduce")

    def await_reduced(self, *ranks: int) -> None:
        """Waits until these ranks, or all, have ended theirs."""
        for rank in ranks or range(len(self.processes)):
            assert self._read(rank) == "done"

    def signal(self, rank: int, which: signal.Signals) -> None:
        """Sends a signal to a rank."""
        self.processes[rank].send_signal(which)

    def end(self) -> None:
        """Ends all ranks."""
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()

    def _write(self, rank: int, line: str) -> None:
        pipe = self.processes[rank].stdin
        assert pipe is not None
        pipe.write(line + "\n")
        pipe.flush()

    def _read(self, rank: int) -> str:
        pipe = self.processes[rank].stdout
        assert pipe is not None
        line = pipe.readline()
        if not line:
            raise AssertionError(f"rank {rank} ended with {self.processes[rank].wait(PATIENCE_SECONDS)}")
        return line.strip()


@contextlib.contextmanager
def job_at(daemon: Daemon, name: str, size: int = 2) -> typing.Iterator[Job]:
    """A job whose ranks end with the block."""
    job = Job(daemon, name, size)
    try:
        yield job
    finally:
        job.end()


def free_port() -> int:
    """A port of the loopback device that nobody has."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextlib.contextmanager
def all_reduce_perf(daemon: Daemon, name: str) -> typing.Iterator[list[subprocess.Popen[bytes]]]:
    """Two ranks of a benchmark that reduce until the block ends."""
    port = free_port()
    processes = []
    for rank in range(2):
        environment = dict(
            os.environ,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE="2",
            LOCAL_WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            HARMONAIZE_SOCKET=str(daemon.socket),
            HARMONAIZE_JOB=name,
            HARMONAIZE_JOB_KIND="training",
        )
        command = [str(PROGRAMS / "all_reduce_perf"), "-b", "4M", "-e", "4M", "-n", "1000000"]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def next_event(stream: harmonaize.EventStream) -> harmonaize.Event:
    """The next event, which is no notice of missed ones."""
    event = stream.next(PATIENCE_SECONDS)
    assert isinstance(event, harmonaize.Event), event
    return event
