"""Jobs whose ranks each do one thing with checkpoints, and end, or are killed."""

from __future__ import annotations

import contextlib
import pathlib
import typing

from daemons import HERE, Daemon
from elastic_jobs import ElasticJob, elastic_job


@contextlib.contextmanager
def _ranks(  # noqa: PLR0913
    daemon: Daemon, folder: pathlib.Path, name: str, size: int, program: str, words: typing.Sequence[object]
) -> typing.Iterator[ElasticJob]:
    """Ranks that do one thing. Their output is in a folder of its own."""
    output = folder / f"{words[0]}-{size}-{len(list(folder.iterdir()))}"
    output.mkdir()
    with elastic_job(daemon, output, name, size, [str(HERE / program), *map(str, words)]) as job:
        yield job


def expect_right(daemon: Daemon, folder: pathlib.Path, name: str, size: int, program: str, *words: object) -> list[str]:
    """Runs ranks, all of which have to end in order and right. Returns what rank 0 has said."""
    with _ranks(daemon, folder, name, size, program, words) as job:
        assert [job.ends(rank) for rank in range(size)] == ["right"] * size
        return job.said(0)


def save_and_die(daemon: Daemon, folder: pathlib.Path, name: str, size: int, program: str, *words: object) -> None:
    """Runs ranks that save, and kills all of them."""
    with _ranks(daemon, folder, name, size, program, words) as job:
        for rank in range(size):
            job.await_line(rank, "saved")
        job.kill(*range(size))
