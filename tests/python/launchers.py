"""Launchers of elastic jobs, `harmonaize run`, whose ranks train as elastic_rank.py does."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import typing

from daemons import BUILD, HERE, PATIENCE_SECONDS, PROGRAMS, Daemon, eventually


class Launcher:
    """A `harmonaize run` of ranks that train, whose output is kept."""

    def __init__(
        self,
        daemon: Daemon,
        output: pathlib.Path,
        *options: str,
        rank: typing.Sequence[str] = (),
        user: int | None = None,
    ) -> None:
        """Starts it, with these options of `run` and of the ranks, as this user; None: as the test's."""
        environment = {name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE"}}
        environment.update(
            HARMONAIZE_SOCKET=str(daemon.socket),
            HARMONAIZE_HOME=str(BUILD),
            PYTHONPATH=str(HERE.parents[1] / "plugins" / "python"),
            OMP_NUM_THREADS="1",
        )
        self._output = output
        command = [str(PROGRAMS / "harmonaize"), "run", "--prefix", "--no-preload", *options]
        with output.open("w") as file:
            self.process = subprocess.Popen(
                [*command, "--", sys.executable, str(HERE / "elastic_rank.py"), *rank],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )

    def said(self) -> str:
        """What the launcher and the ranks have printed."""
        return self._output.read_text()

    def sizes(self) -> set[int]:
        """The sizes of memberships that ranks of this host have seen."""
        return {int(size) for size in re.findall(r"world \d+ (\d+)", self.said())}

    def await_size(self, size: int) -> None:
        """Waits until a rank of this host has trained among so many."""
        eventually(f"the job has {size} ranks:\n{self.said()}", lambda: size in self.sizes())

    def stop(self) -> None:
        """Has rank 0 end the training."""
        assert self.process.stdin is not None
        self.process.stdin.write("stop\n")
        self.process.stdin.flush()

    def pid_of(self, place: int) -> int:
        """The process that the launcher started as this one, once it has said so."""
        found = re.search(rf"process {place} \(pid (\d+)\) starts", self.said())
        assert found is not None, self.said()
        return int(found[1])

    def end(self) -> None:
        """Ends the launcher with its ranks, if it runs."""
        self.process.terminate()
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate(timeout=PATIENCE_SECONDS)


@contextlib.contextmanager
def launched(
    daemon: Daemon, output: pathlib.Path, *options: str, rank: typing.Sequence[str] = (), user: int | None = None
) -> typing.Iterator[Launcher]:
    """A launcher that ends with the block."""
    launcher = Launcher(daemon, output, *options, rank=rank, user=user)
    try:
        yield launcher
    finally:
        launcher.end()
