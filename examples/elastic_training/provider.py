"""The provider's side of the comparison: a daemon of its own, which can be lost, and what an operator does."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import typing

import harmonaize

# Bounds each wait for the daemon, in seconds. Only a fault takes so long.
PATIENCE_SECONDS = 60.0
# Seconds between two looks at what is waited for.
LOOK_SECONDS = 0.02


def program(name: str) -> str:
    """Returns the path of one of Harmonaize's programs: in HARMONAIZE_BUILD, else where the shell finds it."""
    build = os.environ.get("HARMONAIZE_BUILD")
    found = shutil.which(name, path=None if build is None else str(pathlib.Path(build) / "bin"))
    if found is None:
        sys.exit(f"{name} is not there: install Harmonaize, or set HARMONAIZE_BUILD to the folder that has bin/{name}")
    return found


class Provider:
    """A daemon in a folder, and the operator's commands."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Starts the daemon."""
        self.folder = folder
        self.socket = folder / "harmonaized.sock"
        self._configuration = folder / "provider.toml"
        # This daemon is short-lived: measuring the host again would only take the processors from the jobs.
        self._configuration.write_text(f'[calibration]\nagain = false\n[state]\npath = "{folder}/state"\n')
        self._log = folder / "daemon.log"
        self._start()

    def restart(self) -> None:
        """Kills the daemon, as a fault would, and starts another."""
        self._daemon.kill()
        self._daemon.wait()
        self._start()

    def stop(self) -> None:
        """Ends the daemon."""
        self._daemon.send_signal(signal.SIGTERM)
        self._daemon.wait(PATIENCE_SECONDS)

    def offer(self, job: str, kind: str, *options: str) -> str:
        """Makes the job an offer, as an operator does. Returns the offer's id."""
        command = [program("harmonaize"), "offer", "make", job, kind, *options, "--json"]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            made = subprocess.run(command, env=self.environment(), check=False, capture_output=True, text=True)
            if made.returncode == 0:
                return str(json.loads(made.stdout)["id"])
            # The launcher has a place again once the process of a rank that has left has ended.
            if time.monotonic() > deadline:
                sys.exit(f"the {kind} was refused: {made.stderr}")
            time.sleep(LOOK_SECONDS)

    def await_fulfilled(self, offer: str) -> None:
        """Waits until the job has done what it has agreed to."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := self._operator().offer(offer)).ended and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        if found.state != "fulfilled":
            sys.exit(f"the {found.kind} is {found.state}: {found.reason}")

    def process_of(self, ranks: int, rank: int) -> int:
        """Returns the number of the process that is this rank of the job that runs with so many ranks."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            # What the daemon says of ranks may be some tenths of a second old.
            found = self._find_process(ranks, rank)
            if found is not None:
                return found
            time.sleep(LOOK_SECONDS)
        sys.exit(f"no job at the daemon has {ranks} ranks: {self.socket}")

    def environment(self, **variables: str) -> dict[str, str]:
        """Returns the variables for a program that is to use this daemon, and these variables."""
        kept = {name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE"}}
        # What ranks that are killed leave of their files lies in the folder, which goes.
        return {
            **kept,
            "HARMONAIZE_SOCKET": str(self.socket),
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(self.folder),
            **variables,
        }

    def _find_process(self, ranks: int, rank: int) -> int | None:
        operator = self._operator()
        for job in operator.jobs():
            for one in operator.ranks(job.id) if job.ended is None else ():
                if len(one.ranks) == ranks and not any(other.left for other in one.ranks):
                    return next(other.process for other in one.ranks if other.rank == rank)
        return None

    def _operator(self) -> harmonaize.Client:
        return harmonaize.connect(self.socket, as_operator=True)

    def _start(self) -> None:
        command = [program("harmonaized"), "--config", str(self._configuration), "--socket", str(self.socket)]
        with self._log.open("w") as log:
            self._daemon = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "listens at" not in self._log.read_text():
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the daemon has not come up:\n{self._log.read_text()}")
            time.sleep(LOOK_SECONDS)

    def __enter__(self) -> typing.Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the daemon."""
        self.stop()
