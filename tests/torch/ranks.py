"""A daemon of the test's own, and jobs at it: each rank is a process that runs one function of the test's file."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("HARMONAIZE_BUILD", HERE.parents[1] / "build" / "release"))

# Bounds every wait of a test, in seconds. Only a fault takes so long.
PATIENCE_SECONDS = 120

RankFunction = typing.Callable[[int, int], None]


@dataclasses.dataclass
class Ended:
    """How a rank ended: its exit status (negative: by that signal), what it printed, and when (monotonic seconds)."""

    status: int
    output: str
    at: float


class Daemon:
    """A daemon at a socket in a temporary folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.socket = folder / "d.sock"
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [str(BUILD / "bin" / "harmonaized"), "--socket", str(self.socket)],
                stdout=log,
                stderr=log,
                env=dict(os.environ, STATE_DIRECTORY=str(folder / "state")),
            )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "listens at" not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                message = f"the daemon did not come up: {self.log.read_text()}"
                raise AssertionError(message)
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends the daemon, which has to end in order."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE_SECONDS)
        if status != 0:
            message = f"the daemon ended with {status}: {self.log.read_text()}"
            raise AssertionError(message)


class Job:
    """Ranks that run. They meet at a file in `folder`."""

    def __init__(
        self,
        socket: pathlib.Path,
        folder: pathlib.Path,
        function: RankFunction,
        size: int,
        backend: str,
        variables: dict[str, str],
    ) -> None:
        source = pathlib.Path(inspect.getfile(function))
        self.folder = folder
        self.processes = []
        for rank in range(size):
            environment = dict(
                os.environ,
                RANK=str(rank),
                WORLD_SIZE=str(size),
                HARMONAIZE_SOCKET=str(socket),
                TEST_STORE=str(folder / "store"),
                TEST_FOLDER=str(folder),
                TEST_BACKEND=backend,
                OMP_NUM_THREADS="1",
                **variables,
            )
            with (folder / f"rank{rank}").open("w") as output:
                self.processes.append(
                    subprocess.Popen(
                        [sys.executable, str(HERE / "rank_process.py"), str(source), function.__name__],
                        env=environment,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )

    def said(self, rank: int) -> str:
        """What the rank has printed so far."""
        return (self.folder / f"rank{rank}").read_text(errors="replace")

    def await_word(self, rank: int, word: str) -> None:
        """Waits until the rank has printed `word`."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while word not in self.said(rank):
            if self.processes[rank].poll() is not None or time.monotonic() > deadline:
                message = f"rank {rank} did not say '{word}', but: {self.said(rank)}"
                raise AssertionError(message)
            time.sleep(0.01)

    def wait(self, *ranks: int) -> list[Ended]:
        """Waits for these ranks, or for all, and returns how they ended."""
        ended: dict[int, Ended] = {}
        deadline = time.monotonic() + PATIENCE_SECONDS
        wanted = ranks or tuple(range(len(self.processes)))
        while len(ended) < len(wanted):
            for rank in wanted:
                status = self.processes[rank].poll()
                if rank not in ended and status is not None:
                    ended[rank] = Ended(status, self.said(rank), time.monotonic())
            if time.monotonic() > deadline:
                message = f"the ranks did not end: {[self.said(rank) for rank in wanted if rank not in ended]}"
                raise AssertionError(message)
            time.sleep(0.005)
        return [ended[rank] for rank in wanted]

    def kill(self) -> None:
        """Ends ranks that are left."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


class Jobs:
    """Starts jobs at one daemon."""

    def __init__(self, socket: pathlib.Path) -> None:
        self.socket = socket

    @contextlib.contextmanager
    def started(
        self, function: RankFunction, size: int, backend: str = "harmonaize", **variables: str
    ) -> typing.Iterator[Job]:
        """A job whose ranks call `function(rank, size)`, and are killed when the test leaves."""
        with tempfile.TemporaryDirectory(prefix="harmonaize-") as name:
            job = Job(self.socket, pathlib.Path(name), function, size, backend, variables)
            try:
                yield job
            finally:
                job.kill()

    def run(self, function: RankFunction, size: int, backend: str = "harmonaize", **variables: str) -> list[str]:
        """Runs a job to its end, which has to be good, and returns what the ranks printed."""
        with self.started(function, size, backend, **variables) as job:
            ended = job.wait()
            for rank, one in enumerate(ended):
                if one.status != 0:
                    message = f"rank {rank} of {function.__name__} ended with {one.status}:\n{one.output}"
                    raise AssertionError(message)
            return [one.output for one in ended]
