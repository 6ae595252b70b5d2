"""A training on two hosts of a laboratory goes on when ranks are killed, whichever daemon looks after them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import typing

import pytest

from daemons import BUILD, HERE, PATIENCE_SECONDS, PROGRAMS

pytest.importorskip("numpy", reason="NumPy is not installed: pip install numpy, or Debian's python3-numpy")

Fabric = typing.Callable[..., str]


@pytest.fixture
def fabric(tmp_path: pathlib.Path) -> typing.Iterator[Fabric]:
    """A laboratory of two hosts: runs the program `fabric` for it, and returns what that has printed."""
    if not (PROGRAMS / "fabric").exists():
        pytest.skip("there is no laboratory: build the target fabric, or set HARMONAIZE_BUILD")
    environment = {name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE"}}
    environment.update(
        HARMONAIZE_FABRIC_STATE=str(tmp_path),
        HARMONAIZE_HOME=str(BUILD),
        PYTHONPATH=str(HERE.parents[1] / "plugins" / "python"),
    )
    name = f"elastic{os.getpid()}"

    def call(command: str, *words: str) -> str:
        done = subprocess.run(
            [str(PROGRAMS / "fabric"), command, "--name", name, *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
            check=False,
        )
        return f"{done.stdout}\nstatus {done.returncode}"

    up = call("up", str(HERE.parents[1] / "perf" / "fabric" / "fabrics" / "two-hosts.toml"))
    if "is up" not in up:
        pytest.skip(f"the laboratory cannot be used here: {up}")
    try:
        yield call
    finally:
        call("down")


# Ranks 0 and 2 are on the host at which the communicator has formed, the others are not.
@pytest.mark.parametrize("victims", [("0",), ("3",), ("0", "3")])
def test_training_goes_on_at_both_hosts(fabric: Fabric, victims: tuple[str, ...]) -> None:
    # The launcher ends all ranks when one has failed, and a shell that goes on has not.
    rank = f"{sys.executable} {HERE / 'elastic_hosts_rank.py'} {' '.join(victims)} || true"
    said = fabric("run", "--no-preload", "--no-prefix", "-n", "4", "--", "sh", "-c", rank)
    left = 4 - len(victims)
    lines = said.splitlines()
    assert lines.count("end 300 wrong 0") == left, said
    assert lines.count("world 4") == 4, said
    assert lines.count(f"world {left}") == left, said
