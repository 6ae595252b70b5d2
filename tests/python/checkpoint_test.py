"""Checkpoints of ranks that use NumPy: saved, kept when the ranks are gone, and read by other numbers of ranks."""

from __future__ import annotations

import json
import pathlib

import pytest

from checkpoint_jobs import expect_right, save_and_die
from daemons import Daemon, daemon_in_folder, eventually

pytest.importorskip("numpy", reason="NumPy is not installed: pip install numpy, or Debian's python3-numpy")


PROGRAM = "checkpoint_rank.py"


def test_other_numbers_of_ranks_read_from_memory_what_dead_ones_have_saved(
    daemon: Daemon, tmp_path: pathlib.Path
) -> None:
    save_and_die(daemon, tmp_path, "numpy-memory", 4, PROGRAM, "save", "-")
    for size in (3, 2, 6):
        said = expect_right(daemon, tmp_path, "numpy-memory", size, PROGRAM, "read", "-", 30)
        assert said[0] == "place memory step 30 ranks 4"


def test_other_numbers_of_ranks_read_from_the_folder_when_the_daemon_is_gone(tmp_path: pathlib.Path) -> None:
    store = tmp_path / "store"
    with daemon_in_folder() as first:
        save_and_die(first, tmp_path, "numpy-store", 4, PROGRAM, "save", store)
    with daemon_in_folder() as second:
        for size in (3, 1):
            said = expect_right(second, tmp_path, "numpy-store", size, PROGRAM, "read", store, 30)
            assert said[0] == "place storage step 30 ranks 4"


def test_other_numbers_of_ranks_read_from_the_providers_store_when_the_daemon_is_gone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "provider").mkdir(mode=0o700)
    config = f'[checkpoint]\nstore = "{tmp_path / "provider"}"\n'
    with daemon_in_folder(config) as first:
        save_and_die(first, tmp_path, "numpy-provider", 4, PROGRAM, "save", "provider")
    with daemon_in_folder(config) as second:
        said = expect_right(second, tmp_path, "numpy-provider", 3, PROGRAM, "read", "provider", 30)
        assert said[0] == "place storage step 30 ranks 4"


def test_a_replicated_state_is_divided_and_read_whole(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    save_and_die(daemon, tmp_path, "numpy-replicated", 3, PROGRAM, "save_replicated", "-")
    for size in (2, 3):
        expect_right(daemon, tmp_path, "numpy-replicated", size, PROGRAM, "read_replicated", "-", 2)


@pytest.mark.parametrize("act", ["none", "refusals", "failed_folder", "exception", "loss", "many"])
def test_ranks(daemon: Daemon, tmp_path: pathlib.Path, act: str) -> None:
    expect_right(daemon, tmp_path, f"numpy-{act}", 2, PROGRAM, act, "-")


def test_two_checkpointers_of_one_job(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    expect_right(daemon, tmp_path, "numpy-two", 2, PROGRAM, "two_savers", tmp_path / "store")


def test_a_checkpointer_without_keep_and_format_goes_by_the_requirements(
    daemon: Daemon, tmp_path: pathlib.Path
) -> None:
    store = tmp_path / "store"
    expect_right(daemon, tmp_path, "numpy-stated", 2, PROGRAM, "stated", store)

    def committed() -> list[tuple[int, str]]:
        records = [json.loads(path.read_text()) for path in store.glob("steps/*/checkpoint.json")]
        return sorted((record["step"], record["format"]) for record in records)

    # The writer that has committed the newest removes what it makes room for a moment later.
    eventually("one checkpoint is left", lambda: committed() == [(3, "ucp")])
