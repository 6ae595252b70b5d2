"""Elastic agents of torchrun start ranks anew after a loss, and with those of an agent that joins. Each time the ranks
form a group through the same daemon, and go on from the last checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import typing

import pytest
from long import LONG
from ranks import PATIENCE_SECONDS, Daemon

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples" / "elastic_training" / "restarting.py"
SAVE_EVERY = 10
STEPS = 600
# With it agents of PyTorch 2.15 share no store with the ranks. Those of 1.13 never do.
UNSHARED_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"

pytest.importorskip("sklearn", reason="scikit-learn is not installed (Debian: python3-sklearn)")


def free_port() -> int:
    """A port of the loopback device that nobody has."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Agents:
    """Agents of one job, each with two ranks on this host."""

    def __init__(self, daemon: Daemon, folder: pathlib.Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.max_restarts = 3
        self._environment = dict(os.environ, HARMONAIZE_SOCKET=str(daemon.socket), OMP_NUM_THREADS="1")
        # Each test chooses itself whether agents and ranks share a store.
        self._environment.pop(UNSHARED_STORE, None)
        self.processes: list[subprocess.Popen[bytes]] = []

    def let_ranks_make_stores(self) -> None:
        """Has rank 0 of each round serve a store of its own, with every version of PyTorch."""
        self._environment[UNSHARED_STORE] = "1"

    def start(self) -> None:
        """Starts one more agent."""
        # PyTorch 1.13 knows the options with underscores alone, and with Python 3.11 it has to redirect something.
        # PyTorch 2.15 takes the program's options for its own without "--".
        # Without a short last call the first agent waits for half a minute whether another one comes.
        options = ["--nnodes", "1:2", "--nproc_per_node", "2", "--monitor_interval", "0.1"]
        options += ["--max_restarts", str(self.max_restarts)]
        options += ["--rdzv_backend", "c10d", "--rdzv_endpoint", f"localhost:{self._port}", "--rdzv_id", "digits"]
        options += ["--rdzv_conf", "last_call_timeout=1", "--redirects", "1", "--tee", "1"]
        words = ["--steps", str(STEPS), "--picture-ms", "0.5", "--save-every", str(SAVE_EVERY)]
        words += ["--checkpoint", str(self._folder / "checkpoint.pt"), "--log", str(self._folder / "log")]
        with (self._folder / f"agent{len(self.processes)}").open("w") as output:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "torch.distributed.run", *options, "--", str(PROGRAM), *words],
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            )

    def ranks_of(self, agent: int) -> list[int]:
        """The processes of an agent's ranks."""
        process = self.processes[agent].pid
        children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [int(one) for one in children if PROGRAM.name in pathlib.Path(f"/proc/{one}/cmdline").read_text()]

    def lines(self) -> list[dict[str, float]]:
        """What the ranks 0 have written so far."""
        log = self._folder / "log"
        return [json.loads(line) for line in log.read_text().split("\n")[:-1]] if log.exists() else []

    def beginnings(self) -> list[tuple[int, int]]:
        """With how many ranks, and after which step, the training has begun each time."""
        return [(int(line["ranks"]), int(line["begins_at"])) for line in self.lines() if "begins_at" in line]

    def await_steps(self, times: int, more: int) -> int:
        """Waits until the training has begun so many times, and done so many steps since. Returns the last step."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and all(one.poll() is None for one in self.processes):
            beginnings = self.beginnings()
            steps = [int(line["step"]) for line in self.lines() if "step" in line]
            if len(beginnings) == times and steps and steps[-1] >= beginnings[-1][1] + more:
                return steps[-1]
            time.sleep(0.02)
        message = f"the training has not begun {times} times: {self.beginnings()} {self.said()}"
        raise AssertionError(message)

    def said(self) -> list[str]:
        """What the agents have printed."""
        return [(self._folder / f"agent{number}").read_text() for number in range(len(self.processes))]

    def end(self) -> None:
        """Ends the agents that are left, which end their ranks."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE_SECONDS)


@pytest.fixture
def agents(daemon: Daemon, tmp_path: pathlib.Path) -> typing.Iterator[Agents]:
    """Agents that end with the test."""
    some = Agents(daemon, tmp_path)
    try:
        yield some
    finally:
        some.end()


def check_steps(agents: Agents) -> None:
    """Each step was done, few of them again, and one rank tested the network at the end."""
    steps = [int(line["step"]) for line in agents.lines() if "step" in line]
    assert set(steps) == set(range(1, STEPS + 1))
    assert len(steps) - STEPS < 2 * SAVE_EVERY, "more was done again than the steps since two checkpoints"
    assert sum("test_loss" in line for line in agents.lines()) == 1


@LONG
def test_an_agent_starts_ranks_anew_after_each_loss(agents: Agents) -> None:
    # An agent of PyTorch 2.15 keeps one store for all rounds. Ranks that fail in it leave no restart for a loss.
    agents.max_restarts = 2
    agents.start()
    before = [0]
    for losses in range(2):
        before.append(agents.await_steps(losses + 1, 2 * SAVE_EVERY))
        os.kill(agents.ranks_of(0)[-1], signal.SIGKILL)
    agents.await_steps(3, 2 * SAVE_EVERY)
    assert [one.wait(PATIENCE_SECONDS) for one in agents.processes] == [0], agents.said()
    begun = agents.beginnings()
    assert [ranks for ranks, _ in begun] == [2, 2, 2], agents.said()
    # It may have gone on for some steps after the last look, so a later checkpoint may be there.
    assert all(at >= step - step % SAVE_EVERY for (_, at), step in zip(begun, before)), begun
    check_steps(agents)


def test_agents_start_ranks_anew_after_a_loss_and_with_another_agent(agents: Agents) -> None:
    # Agents of PyTorch 2.15 that share their store do not tell its address to one that comes in a later round.
    agents.let_ranks_make_stores()
    agents.start()
    before_loss = agents.await_steps(1, 2 * SAVE_EVERY)
    os.kill(agents.ranks_of(0)[-1], signal.SIGKILL)
    before_joining = agents.await_steps(2, 2 * SAVE_EVERY)
    agents.start()
    agents.await_steps(3, 2 * SAVE_EVERY)
    assert [one.wait(PATIENCE_SECONDS) for one in agents.processes] == [0, 0], agents.said()
    begun = agents.beginnings()
    assert [ranks for ranks, _ in begun] == [2, 2, 4], agents.said()
    assert begun[0][1] == 0
    # It may have gone on for some steps after the last look, so a later checkpoint may be there.
    assert begun[1][1] >= before_loss - before_loss % SAVE_EVERY, begun
    assert begun[2][1] >= before_joining - before_joining % SAVE_EVERY, begun
    assert all(step % SAVE_EVERY == 0 for _, step in begun), begun
    check_steps(agents)
