"""A training that runs under the launcher, watched by its log."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import time
import typing

from course import Log
from provider import LOOK_SECONDS, Provider, program

# Bounds each wait for a training, in seconds: for a step, for a change of its ranks, and for its end.
PATIENCE_SECONDS = 300.0


class Training:
    """Ranks that train under the launcher."""

    def __init__(self, provider: Provider, log: Log, output: pathlib.Path, ranks: int, *words: str) -> None:
        """Starts them. `words` are options of the launcher, "--", and the program with its own."""
        self.log = log
        self._output = output
        command = [program("harmonaize"), "run", "-n", str(ranks), "--no-preload", *words]
        with output.open("a") as file:
            self._launcher = subprocess.Popen(
                command, env=provider.environment(), stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    def await_step(self, step: int) -> None:
        """Waits until so many steps are done."""
        self._await(f"step {step}", lambda: self.log.step >= step)

    def await_ranks(self, ranks: int) -> None:
        """Waits until it goes on with so many ranks."""
        self._await(f"{ranks} ranks", lambda: self.log.ranks == ranks)

    def await_change(self, changes: int) -> None:
        """Waits until the ranks have changed so often since the beginning."""
        self._await(f"change {changes}", lambda: len(self.log.sizes) > changes)

    def stop(self) -> None:
        """Ends the ranks, if there are any."""
        if self._launcher.poll() is None:
            self._launcher.send_signal(signal.SIGTERM)
        self._launcher.wait(PATIENCE_SECONDS)
        self.log.read()

    def finish(self) -> None:
        """Waits for the end, which has to be in order."""
        status = self._launcher.wait(PATIENCE_SECONDS)
        self.log.read()
        if status != 0:
            self._fail(f"ended with {status}")

    def await_end(self) -> None:
        """Waits for an end that need not be in order."""
        self._launcher.wait(PATIENCE_SECONDS)
        self.log.read()

    def _await(self, what: str, holds: typing.Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            ended = self._launcher.poll() is not None
            self.log.read()
            if holds():
                return
            if ended or time.monotonic() > deadline:
                self._fail(f"{'ended' if ended else 'has run for long'}, and has not come to {what}")
            time.sleep(LOOK_SECONDS)

    def _fail(self, what: str) -> typing.NoReturn:
        sys.exit(f"the training {what} (at step {self.log.step}):\n{self._output.read_text()[-4000:]}")
