"""Elastic trainings go on from their checkpoints when no rank is left."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

from daemons import HERE, Daemon, daemon_in_folder, eventually
from elastic_jobs import ElasticJob, elastic_job

pytest.importorskip("numpy", reason="NumPy is not installed: pip install numpy, or Debian's python3-numpy")

PROGRAM = str(HERE / "elastic_checkpoint_rank.py")
EVERY = 5

kinds = pytest.mark.parametrize(
    "kind",
    [
        (),
        pytest.param(
            ("torch",),
            marks=pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
        ),
    ],
    ids=["numpy", "torch"],
)


def digests(job: ElasticJob, place: int) -> dict[int, str]:
    """The state after each step, as a process has seen it."""
    lines = [line.split() for line in job.said(place) if line.startswith("step ")]
    return {int(line[1]): line[2] for line in lines}


def is_stored(store: pathlib.Path, step: int) -> bool:
    """Whether a folder has a whole checkpoint of a step."""
    return any(store.glob(f"steps/{step:020}-*/checkpoint.json"))


def beginning(job: ElasticJob, place: int) -> tuple[int, str]:
    """The step from which a process has begun, and its state then."""
    _, step, digest = job.await_line(place, "from ").split()
    return int(step), digest


@kinds
def test_after_all_ranks_were_killed_another_number_goes_on_from_the_last_checkpoint(
    daemon: Daemon, tmp_path: pathlib.Path, kind: tuple[str, ...]
) -> None:
    name = f"elastic-memory-{len(kind)}"
    command = [PROGRAM, "-", str(EVERY), *kind]
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with elastic_job(daemon, first, name, 3, command) as job:
        job.await_steps(0, 1, 2, more=2 * EVERY + 1)
        job.kill(0, 1, 2)
        done = [digests(job, place) for place in range(3)]
    with elastic_job(daemon, second, name, 2, command) as job:
        for place in range(2):
            step, digest = beginning(job, place)
            assert step % EVERY == 0
            # The last save may have been torn by the kill, or the last step not printed.
            assert max(map(max, done)) - 2 * EVERY <= step <= max(map(max, done)) + 1
            assert all(one.get(step, digest) == digest for one in done)
        job.await_steps(0, 1, more=3)
        job.order(0, "stop")
        assert {job.ends(place) for place in range(2)} == {f"end done step {max(job.steps(0))}"}


def test_what_ranks_that_leave_have_saved_is_read_from_the_folder(tmp_path: pathlib.Path) -> None:
    store = str(tmp_path / "store")
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with daemon_in_folder() as one, elastic_job(one, first, "leaving", 2, [PROGRAM, store, "0"]) as job:
        job.await_steps(0, 1, more=3)
        job.order(0, "leave")
        job.order(1, "leave")
        # Both leave, at once or one after the other; what the first has left, the other goes on from.
        ends = [job.ends(place) for place in range(2)]
        last = max(int(end.split()[-1]) for end in ends)
        assert all(end.startswith("end None step ") for end in ends)
        done = digests(job, 0) | digests(job, 1)
        # Ranks that leave wait for a while. On a busy machine the writer, which gives way to all, goes on without them.
        eventually(f"step {last} is stored", lambda: is_stored(pathlib.Path(store), last))
    with daemon_in_folder() as another, elastic_job(another, second, "leaving", 3, [PROGRAM, store, "0"]) as job:
        assert beginning(job, 2) == (last, done[last])
        job.await_steps(0, 1, 2, more=2)
        job.order(1, "stop")
        assert len({job.ends(place) for place in range(3)}) == 1


def test_survivors_keep_their_state_and_go_on_saving(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    command = [PROGRAM, "-", str(EVERY)]
    with elastic_job(daemon, first, "survivors", 3, command) as job:
        job.await_steps(0, 1, 2, more=EVERY + 1)
        job.kill(1)
        job.await_world(0, 2)
        job.await_steps(0, 2, more=2 * EVERY)
        job.kill(0, 2)
        done = digests(job, 0)
    with elastic_job(daemon, second, "survivors", 1, command) as job:
        step, digest = beginning(job, 0)
        assert step > EVERY
        assert done.get(step, digest) == digest
        job.order(0, "stop")
        job.ends(0)


def test_a_checkpoint_that_the_provider_advises_is_saved(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    command = [PROGRAM, "-", "0"]
    with elastic_job(daemon, first, "advised", 2, command) as job:
        job.await_steps(0, 1, more=5)
        before = max(job.steps(0))
        daemon.operator().call(
            "POST",
            "/v1/events",
            {"job": "advised", "type": "checkpoint.advised", "data": {"why": "interval", "text": "save now"}},
        )
        job.await_steps(0, 1, more=200)
        job.kill(0, 1)
    with elastic_job(daemon, second, "advised", 1, command) as job:
        assert beginning(job, 0)[0] > before
        job.order(0, "stop")
        job.ends(0)
