"""Checkpoints of ranks that use PyTorch, by its distributed checkpoints and by the package's own calls.

They run with every PyTorch from 1.13 on. Where its distributed checkpoints cannot be used, they are left out.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

from checkpoint_jobs import expect_right, save_and_die
from daemons import BUILD, HERE, PATIENCE_SECONDS, PROGRAMS, Daemon, daemon_in_folder

for needed in ("torch", "numpy"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed: scripts/install-torch.sh installs both", allow_module_level=True)

PROGRAM = "torch_checkpoint_rank.py"

newer = pytest.mark.skipif(
    importlib.util.find_spec("torch.distributed.checkpoint") is None, reason="PyTorch has no distributed checkpoints"
)


@newer
@pytest.mark.parametrize("act", ["save", "save_async"])
def test_other_numbers_of_ranks_load_from_memory_what_dead_ones_have_saved(
    daemon: Daemon, tmp_path: pathlib.Path, act: str
) -> None:
    save_and_die(daemon, tmp_path, f"torch-{act}", 4, PROGRAM, act, "-")
    for size in (3, 2):
        expect_right(daemon, tmp_path, f"torch-{act}", size, PROGRAM, "load", "-")


@newer
@pytest.mark.parametrize("act", ["save", "save_async"])
def test_other_numbers_of_ranks_load_from_the_folder_when_the_daemon_is_gone(tmp_path: pathlib.Path, act: str) -> None:
    store = tmp_path / "store"
    with daemon_in_folder() as first:
        save_and_die(first, tmp_path, "torch-store", 2, PROGRAM, act, store)
    with daemon_in_folder() as second:
        expect_right(second, tmp_path, "torch-store", 3, PROGRAM, "load", store)
        if act == "save_async":
            expect_right(second, tmp_path, "torch-store", 2, PROGRAM, "load_by_id", store)


@pytest.mark.parametrize(
    "act", ["module", "foreign", *(pytest.param(one, marks=newer) for one in ("ids", "sharded_tensors")), "fsdp"]
)
def test_ranks(daemon: Daemon, tmp_path: pathlib.Path, act: str) -> None:
    if act == "fsdp" and torch_version() < (2, 7):
        pytest.skip("FSDP2 of this PyTorch needs a GPU")
    expect_right(daemon, tmp_path, f"torch-{act}", 2, PROGRAM, act, tmp_path / "store")


def torch_version() -> tuple[int, ...]:
    """Returns PyTorch's major and minor version."""
    return tuple(int(number) for number in importlib.metadata.version("torch").split(".")[:2])


@newer
def test_the_example_goes_on_with_fewer_ranks_after_a_loss(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    options = ["--backend", "gloo", "--folder", str(tmp_path / "store"), "--steps", "60", "--every", "10"]
    status, said = run_example(daemon, 3, *options, "--die-at", "45")
    assert status != 0, said
    status, said = run_example(daemon, 2, *options)
    assert status == 0, said
    assert "goes on after step 40, from memory, with 2 ranks" in said
    assert re.search(r"^60 steps, loss \d", said, re.MULTILINE), said
    # What the last save has stored is read without a daemon.
    status, said = run_example(daemon, 1, *options, "--steps", "61", name="another")
    assert status == 0, said
    assert "goes on after step 60, from storage, with 1 ranks" in said


def run_example(daemon: Daemon, ranks: int, *options: str, name: str = "example") -> tuple[int, str]:
    """Runs the example under the launcher. Returns its status and what it has printed."""
    launcher = PROGRAMS / "harmonaize"
    if not launcher.exists():
        pytest.skip(f"there is no launcher {launcher}: build the target harmonaize, or set HARMONAIZE_BUILD")
    root = HERE.parents[1]
    command = [str(launcher), "run", "-n", str(ranks), "--name", name, "--no-preload", "--no-prefix", "--"]
    command += [sys.executable, str(root / "examples" / "checkpointing" / "train.py"), *options]
    environment = dict(
        os.environ,
        HARMONAIZE_SOCKET=str(daemon.socket),
        HARMONAIZE_HOME=str(BUILD),
        PYTHONPATH=str(root / "plugins" / "python"),
        OMP_NUM_THREADS="1",
    )
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=4 * PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout
