"""Ranks of elastic jobs in containers: what a launcher hands into them, tickets included."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

from agents_test import has_ended
from daemons import BUILD, PATIENCE_SECONDS, Daemon, eventually
from launchers import launched

# The host's programs without its /tmp and /run, where the daemon's socket and tickets are.
CONTAINER = [
    *("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"),
    *("--tmpfs", "/tmp", "--tmpfs", "/run"),  # noqa: S108
]


def why_no_container() -> str:
    """Why no container can be made here; "" if one can."""
    if BUILD.is_relative_to("/tmp"):  # noqa: S108
        return "the build folder would not be in the container"
    try:
        made = subprocess.run([*CONTAINER, "true"], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return "there is no bwrap"
    return made.stderr


def test_ranks_in_containers_come_and_leave(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    if why := why_no_container():
        pytest.skip(why)
    operator = daemon.operator()
    options = ["--inject", "-n", "1", "--elastic", "1:3", "--name", "elastic-inject"]
    with launched(daemon, tmp_path / "out", *options, "--", *CONTAINER) as run:
        run.await_size(1)
        grow = operator.make_offer("elastic-inject", "grow", ranks=1, within_seconds=60)
        run.await_size(2)
        eventually("the place is taken", lambda: has_ended(daemon, grow.id, "fulfilled"))
        reclaim = operator.make_offer("elastic-inject", "reclaim", ranks=1, within_seconds=30)
        eventually("the rank has left", lambda: has_ended(daemon, reclaim.id, "fulfilled"))
        run.stop()
        assert run.process.wait(PATIENCE_SECONDS) == 0, run.said()
        assert len(re.findall(r"end done .* wrong 0", run.said())) == 1, run.said()
