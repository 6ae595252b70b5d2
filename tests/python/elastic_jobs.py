"""Elastic trainings of a test: ranks as processes, which can be killed, told to leave, and joined by newcomers."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pathlib
import subprocess
import sys
import typing

from daemons import BUILD, HERE, PATIENCE_SECONDS, Daemon, eventually, free_port


class ElasticJob:
    """Ranks that train. What each has printed is in a file."""

    def __init__(
        self, daemon: Daemon, folder: pathlib.Path, name: str, command: typing.Sequence[str], size: int
    ) -> None:
        """Starts the ranks: each is a Python program with arguments."""
        self._folder = folder
        self._command = command
        self._common = {
            "HARMONAIZE_SOCKET": str(daemon.socket),
            "HARMONAIZE_JOB": name,
            "HARMONAIZE_HOME": str(BUILD),
            "PYTHONPATH": os.pathsep.join(
                [str(HERE.parents[1] / "plugins" / "python"), os.environ.get("PYTHONPATH", "")]
            ),
            "OMP_NUM_THREADS": "1",
        }
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size)}
        self.processes: list[subprocess.Popen[str]] = []
        for rank in range(size):
            self._start({**meeting, "RANK": str(rank)})

    def add(self, ticket: str) -> int:
        """Starts a newcomer with this ticket. Returns its place among the processes."""
        file = self._folder / f"ticket{len(self.processes)}"
        file.touch(mode=0o600)
        file.write_text(ticket)
        return self._start({"HARMONAIZE_TICKET_FILE": str(file)})

    def order(self, place: int, word: str) -> None:
        """Tells a process to do something."""
        pipe = self.processes[place].stdin
        assert pipe is not None
        pipe.write(word + "\n")
        pipe.flush()

    def said(self, place: int) -> list[str]:
        """The whole lines that a process has printed."""
        return (self._folder / f"rank{place}").read_text().split("\n")[:-1]

    def worlds(self, place: int) -> list[tuple[int, int]]:
        """Rank and size of each membership that a process has seen."""
        lines = [line.split() for line in self.said(place) if line.startswith("world ")]
        return [(int(line[1]), int(line[2])) for line in lines]

    def steps(self, place: int) -> list[int]:
        """The steps that a process has done, in their order."""
        return [int(line.split()[1]) for line in self.said(place) if line.startswith("step ")]

    def await_steps(self, *places: int, more: int = 5) -> None:
        """Waits until each of these processes has done so many more steps."""
        for place in places:
            wanted = len(self.steps(place)) + more
            self._await(place, f"it has done {wanted} steps", functools.partial(self._has_done, place, wanted))

    def await_world(self, place: int, size: int) -> None:
        """Waits until a process is in a membership of so many ranks."""
        self._await(place, f"it is one of {size} ranks", functools.partial(self._is_one_of, place, size))

    def _has_done(self, place: int, steps: int) -> bool:
        return len(self.steps(place)) >= steps

    def _is_one_of(self, place: int, size: int) -> bool:
        return any(world[1] == size for world in self.worlds(place)[-1:])

    def await_line(self, place: int, start: str) -> str:
        """Waits for a line that begins so."""

        def found() -> str | None:
            return next((line for line in self.said(place) if line.startswith(start)), None)

        self._await(place, f"it says {start}", found)
        line = found()
        assert line is not None
        return line

    def kill(self, *places: int) -> None:
        """Kills processes."""
        for place in places:
            self.processes[place].kill()
        for place in places:
            self.processes[place].wait()

    def ends(self, place: int) -> str:
        """Waits for the end of a process, which has to be in order, and returns its last line."""
        status = self.processes[place].wait(PATIENCE_SECONDS)
        assert status == 0, (status, self.said(place)[-30:], self._errors(place))
        return self.said(place)[-1]

    def end(self) -> None:
        """Ends all processes that are left."""
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()

    def _start(self, variables: dict[str, str]) -> int:
        place = len(self.processes)
        environment = {name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE"}}
        environment.update(self._common, **variables)
        with (self._folder / f"rank{place}").open("w") as output, (self._folder / f"errors{place}").open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, *self._command],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                text=True,
            )
        self.processes.append(process)
        return place

    def _await(self, place: int, what: str, holds: typing.Callable[[], object]) -> None:
        def holds_or_ended() -> object:
            if not holds() and self.processes[place].poll() is not None:
                raise AssertionError(f"process {place} ended: {self.said(place)[-5:]} {self._errors(place)}")
            return holds()

        eventually(f"of process {place}: {what}", holds_or_ended)

    def _errors(self, place: int) -> str:
        return (self._folder / f"errors{place}").read_text()


@contextlib.contextmanager
def elastic_job(
    daemon: Daemon,
    folder: pathlib.Path,
    name: str,
    size: int,
    command: typing.Sequence[str] = (str(HERE / "elastic_rank.py"),),
) -> typing.Iterator[ElasticJob]:
    """A training whose processes end with the block."""
    job = ElasticJob(daemon, folder, name, command, size)
    try:
        yield job
    finally:
        job.end()


def expect_right(job: ElasticJob, places: list[int], stopper: int) -> None:
    """Stops the training, and checks that all of these processes end with the same right sum."""
    job.order(stopper, "stop")
    ends = [job.ends(place) for place in places]
    assert len(set(ends)) == 1, ends
    assert ends[0].startswith("end done True step"), ends
    assert ends[0].endswith("wrong 0"), ends
    assert int(ends[0].split()[4]) == max(job.steps(places[0]))


def expect_steps_in_order(job: ElasticJob, place: int, changes: int) -> None:
    """Each step follows the one before; at a change the last one may be done again."""
    steps = job.steps(place)
    back = [(one, after) for one, after in itertools.pairwise(steps) if after != one + 1]
    assert len(back) <= changes, back
    assert all(after == one for one, after in back), back
