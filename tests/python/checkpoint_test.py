"""Checkpoints of ranks that use NumPy: saved, kept when the ranks are gone, and read by other numbers of ranks."""

from __future__ import annotations

import contextlib
import pathlib
import typing

import pytest

from daemons import HERE, Daemon, daemon_in_folder
from elastic_jobs import ElasticJob, elastic_job

pytest.importorskip("numpy", reason="NumPy is not installed: pip install numpy, or Debian's python3-numpy")


@contextlib.contextmanager
def ranks(
    daemon: Daemon, folder: pathlib.Path, name: str, size: int, *words: object
) -> typing.Iterator[ElasticJob]:
    """Ranks that do one thing. Their output is in a folder of its own."""
    output = folder / f"{words[0]}-{size}-{len(list(folder.iterdir()))}"
    output.mkdir()
    command = [str(HERE / "checkpoint_rank.py"), *map(str, words)]
    with elastic_job(daemon, output, name, size, command) as job:
        yield job


def expect_right(daemon: Daemon, folder: pathlib.Path, name: str, size: int, *words: object) -> list[str]:
    """Runs ranks, all of which have to end in order. Returns what rank 0 has said."""
    with ranks(daemon, folder, name, size, *words) as job:
        assert [job.ends(rank) for rank in range(size)] == ["right"] * size
        return job.said(0)


def save_and_die(daemon: Daemon, folder: pathlib.Path, name: str, size: int, *words: object) -> None:
    """Runs ranks that save, and kills all of them."""
    with ranks(daemon, folder, name, size, *words) as job:
        for rank in range(size):
            job.await_line(rank, "saved")
        job.kill(*range(size))


def test_other_numbers_of_ranks_read_from_memory_what_dead_ones_have_saved(
    daemon: Daemon, tmp_path: pathlib.Path
) -> None:
    save_and_die(daemon, tmp_path, "numpy-memory", 4, "save", "-")
    for size in (3, 2, 6):
        said = expect_right(daemon, tmp_path, "numpy-memory", size, "read", "-", 30)
        assert said[0] == "place memory step 30 ranks 4"


def test_other_numbers_of_ranks_read_from_the_folder_when_the_daemon_is_gone(tmp_path: pathlib.Path) -> None:
    store = tmp_path / "store"
    with daemon_in_folder() as first:
        save_and_die(first, tmp_path, "numpy-store", 4, "save", store)
    with daemon_in_folder() as second:
        for size in (3, 1):
            said = expect_right(second, tmp_path, "numpy-store", size, "read", store, 30)
            assert said[0] == "place storage step 30 ranks 4"


def test_a_replicated_state_is_divided_and_read_whole(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    save_and_die(daemon, tmp_path, "numpy-replicated", 3, "save_replicated", "-")
    for size in (2, 3):
        expect_right(daemon, tmp_path, "numpy-replicated", size, "read_replicated", "-", 2)


@pytest.mark.parametrize("act", ["none", "refusals", "failed_folder", "exception", "many"])
def test_ranks(daemon: Daemon, tmp_path: pathlib.Path, act: str) -> None:
    expect_right(daemon, tmp_path, f"numpy-{act}", 2, act, "-")


def test_two_checkpointers_of_one_job(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    expect_right(daemon, tmp_path, "numpy-two", 2, "two_savers", tmp_path / "store")
