"""A daemon of the test's own, and jobs at it: each rank is a process that runs one function of the test's file."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import os
import pathlib
import select
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

    def __init__(self, folder: pathlib.Path, user: int | None = None) -> None:
        self.socket = folder / "d.sock"
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [str(BUILD / "bin" / "harmonaized"), "--socket", str(self.socket)],
                stdout=log,
                stderr=log,
                env=dict(os.environ, STATE_DIRECTORY=str(folder / "state")),
                user=user,
                group=user,
                extra_groups=None if user is None else [],
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
    """Ranks that run. They meet at a file in `folder`. Without a function they are a crew, which reads orders."""

    def __init__(  # noqa: PLR0913
        self,
        socket: pathlib.Path,
        folder: pathlib.Path,
        function: RankFunction | None,
        size: int,
        backend: str,
        variables: dict[str, str],
    ) -> None:
        command = [sys.executable, str(HERE / "rank_process.py")]
        if function is not None:
            command += [inspect.getfile(function), function.__name__]
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
                        command,
                        env=environment,
                        stdin=subprocess.PIPE if function is None else subprocess.DEVNULL,
                        stdout=subprocess.PIPE if function is None else output,
                        stderr=output,
                        text=True,
                    )
                )

    def said(self, rank: int) -> str:
        """What the rank has printed so far."""
        return (self.folder / f"rank{rank}").read_text(errors="replace")

    def await_word(self, rank: int, word: str) -> None:
        """Waits until the rank has printed `word`."""
        self._await(rank, word, lambda: word in self.said(rank))

    def await_line(self, rank: int, start: str) -> None:
        """Waits until the rank has printed a whole line that begins so."""

        def printed() -> bool:
            return any(line.startswith(start) for line in self.said(rank).split("\n")[:-1])

        self._await(rank, start, printed)

    def _await(self, rank: int, what: str, holds: typing.Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        ended = False
        while not holds():
            if ended or time.monotonic() > deadline:
                message = f"rank {rank} did not say '{what}', but: {self.said(rank)}"
                raise AssertionError(message)
            ended = self.processes[rank].poll() is not None
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


class Crew:
    """Ranks that stay, and run one function after the other in their default group: most tests need no ranks of their
    own, and PyTorch takes seconds to start.
    """

    def __init__(self, socket: pathlib.Path, folder: pathlib.Path, size: int) -> None:
        self.job = Job(socket, folder, None, size, "harmonaize", {})

    def run(self, function: RankFunction) -> None:
        """Runs the function at all ranks. Where it fails, the ranks are not used again."""
        order = {"file": inspect.getfile(function), "function": function.__name__}
        for process in self.job.processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        deadline = time.monotonic() + PATIENCE_SECONDS
        answers = [self._answer(rank, deadline) for rank in range(len(self.job.processes))]
        if any(answers):
            raise AssertionError("\n".join(f"rank {rank}: {answer}" for rank, answer in enumerate(answers) if answer))

    def _answer(self, rank: int, deadline: float) -> str:
        """Returns what went wrong at the rank, or ""."""
        process = self.job.processes[rank]
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return f"no answer in {PATIENCE_SECONDS} s; it said: {self.job.said(rank)}"
        line = process.stdout.readline()
        if not line:
            return f"it ended with {process.wait()}; it said: {self.job.said(rank)}"
        wrong: str = json.loads(line)
        return wrong

    def leave(self) -> None:
        """Lets the ranks leave, which has to go well."""
        for process in self.job.processes:
            assert process.stdin is not None
            process.stdin.close()
        for rank, ended in enumerate(self.job.wait()):
            if ended.status != 0:
                message = f"rank {rank} left with {ended.status}: {ended.output}"
                raise AssertionError(message)

    def kill(self) -> None:
        """Ends the ranks."""
        self.job.kill()


class Jobs:
    """Runs functions as ranks at one daemon."""

    def __init__(self, socket: pathlib.Path, folder: pathlib.Path) -> None:
        self.socket = socket
        self.folder = folder
        self._crews: dict[int, Crew] = {}
        self._made = 0

    def run(self, function: RankFunction, size: int) -> None:
        """Calls `function(rank, size)` at ranks that tests share. All calls have to return."""
        if size not in self._crews:
            self._made += 1
            folder = self.folder / f"crew{self._made}"
            folder.mkdir()
            self._crews[size] = Crew(self.socket, folder, size)
        try:
            self._crews[size].run(function)
        except BaseException:
            self._crews.pop(size).kill()
            raise

    def leave(self) -> None:
        """Lets all ranks leave."""
        try:
            for crew in self._crews.values():
                crew.leave()
        finally:
            for crew in self._crews.values():
                crew.kill()

    @contextlib.contextmanager
    def started(
        self, function: RankFunction, size: int, backend: str = "harmonaize", **variables: str
    ) -> typing.Iterator[Job]:
        """A job of its own, whose ranks are killed when the test leaves."""
        with tempfile.TemporaryDirectory(prefix="harmonaize-") as name:
            job = Job(self.socket, pathlib.Path(name), function, size, backend, variables)
            try:
                yield job
            finally:
                job.kill()
