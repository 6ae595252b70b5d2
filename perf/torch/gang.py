"""Ranks of one backend that wait for orders, and a daemon for them. What the programs of this folder share."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("HARMONAIZE_BUILD", HERE.parents[1] / "build/release"))
# Bounds the start of a gang of processes, and each of its answers, in seconds: importing PyTorch takes a few.
START_SECONDS = 120


def free_port() -> int:
    """Returns a port that nobody had a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Gang:
    """The ranks of one backend, which wait for orders."""

    def __init__(self, backend: str, ranks: int, launcher: str, folder: pathlib.Path) -> None:
        """Starts them, and waits until their group is there. `launcher`: see --launch; "": all are started here."""
        self.backend = backend
        self.log = folder / f"{backend}-{ranks}.log"
        path = folder / f"{backend}-{ranks}.sock"
        command = [sys.executable, str(HERE / "rank.py"), backend, str(path)]
        with socket.socket(socket.AF_UNIX) as door, self.log.open("w") as log:
            door.bind(str(path))
            door.listen(ranks)
            if launcher:
                words = shlex.split(launcher.format(ranks=ranks))
                self.processes = [subprocess.Popen([*words, *command], stdout=log, stderr=log)]
            else:
                self.processes = [
                    subprocess.Popen(command, stdout=log, stderr=log, env=environment)
                    for environment in self._environments(ranks)
                ]
            self.ranks = self._accept(door, ranks)

    @staticmethod
    def _environments(ranks: int) -> list[dict[str, str]]:
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
        return [{**os.environ, **common, "OMP_NUM_THREADS": "1", "RANK": str(rank)} for rank in range(ranks)]

    def _accept(self, door: socket.socket, ranks: int) -> list[typing.TextIO]:
        door.settimeout(START_SECONDS)
        files: list[typing.TextIO] = []
        try:
            for _ in range(ranks):
                rank = door.accept()[0]
                rank.settimeout(START_SECONDS)
                files.append(rank.makefile("rw", encoding="utf-8"))
            if all(one.readline() for one in files):
                return files
        except TimeoutError:
            pass
        sys.exit(f"the ranks of {self.backend} have not come up:\n{self.log.read_text()[-4000:]}")

    def order(self, **what: typing.Any) -> list[dict[str, typing.Any]]:
        """Has all ranks do something, and returns their answers: with "error" where something was wrong."""
        for rank in self.ranks:
            rank.write(json.dumps(what) + "\n")
            rank.flush()
        return [json.loads(rank.readline() or '{"error": "it has ended"}') for rank in self.ranks]

    def end(self) -> None:
        """Ends the ranks."""
        for rank in self.ranks:
            rank.close()
        for process in self.processes:
            process.wait(START_SECONDS)


def start_daemon(folder: pathlib.Path) -> subprocess.Popen[bytes]:
    """Starts a daemon for the run, with a state folder of its own, since the host's may have the usual one."""
    path = folder / "harmonaized.sock"
    os.environ["HARMONAIZE_SOCKET"] = str(path)
    configuration = folder / "provider.toml"
    configuration.write_text(f'[state]\npath = "{folder}/state"\n')
    log = folder / "daemon.log"
    with log.open("w") as errors:
        daemon = subprocess.Popen(
            [str(BUILD / "bin" / "harmonaized"), "--config", str(configuration), "--socket", str(path)],
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    deadline = time.monotonic() + START_SECONDS
    while not path.exists():
        if daemon.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"the daemon has not come up:\n{log.read_text()}")
        time.sleep(0.05)
    return daemon


def add_launch_option(parser: argparse.ArgumentParser) -> None:
    """Adds --launch."""
    parser.add_argument(
        "--launch",
        action="append",
        default=[],
        metavar="BACKEND=COMMAND",
        help="what starts the ranks of a backend; {ranks} stands for their number (default: they are started here)",
    )


@contextlib.contextmanager
def folder_with_daemon(launch: list[str]) -> typing.Iterator[pathlib.Path]:
    """A temporary folder; and a daemon while it is there, unless there is one, or a launcher has its own."""
    with tempfile.TemporaryDirectory(prefix="harmonaize-") as name:
        needs_daemon = "HARMONAIZE_SOCKET" not in os.environ and not launch
        daemon = start_daemon(pathlib.Path(name)) if needs_daemon else None
        try:
            yield pathlib.Path(name)
        finally:
            if daemon is not None:
                daemon.send_signal(signal.SIGTERM)
                daemon.wait()


def start_gangs(backends: list[str], ranks: int, launch: list[str], folder: pathlib.Path) -> dict[str, Gang]:
    """Starts the ranks of all backends, by name."""
    launchers = dict(word.split("=", 1) for word in launch)
    return {name: Gang(name, ranks, launchers.get(name, ""), folder) for name in backends}
