"""Checkpoints of ranks that use PyTorch, by its distributed checkpoints and by the package's own calls.

They run with every PyTorch from 1.13 on. Where its distributed checkpoints cannot be used, they are left out.
"""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

from checkpoint_jobs import expect_right, save_and_die
from daemons import Daemon, daemon_in_folder

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


@pytest.mark.parametrize("act", [pytest.param("ids", marks=newer), "module", "foreign"])
def test_ranks(daemon: Daemon, tmp_path: pathlib.Path, act: str) -> None:
    expect_right(daemon, tmp_path, f"torch-{act}", 2, PROGRAM, act, tmp_path / "store")
