"""Training with DistributedDataParallel goes on when ranks are killed, and ends with the parameters that it would have
had without.
"""

from __future__ import annotations

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parents[1] / "plugins" / "python")]

from daemons import PROGRAMS, daemon_in_folder  # noqa: E402
from elastic_jobs import elastic_job  # noqa: E402

PROGRAM = [str(HERE / "elastic_rank.py")]
SLOW_PROGRAM = [str(HERE / "elastic_slow_rank.py")]


@pytest.mark.parametrize("restarts", [False, True])
def test_training_goes_on(tmp_path: pathlib.Path, restarts: bool) -> None:  # noqa: FBT001
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip("there is no daemon: build the target harmonaized, or set HARMONAIZE_BUILD")
    with daemon_in_folder() as daemon, elastic_job(daemon, tmp_path, "elastic-torch", 4, PROGRAM) as job:
        job.await_steps(0, 1, 2, 3)
        job.kill(1, 2)
        job.await_world(0, 2)
        job.await_steps(0, 3)
        if restarts:
            daemon.process.kill()
            daemon.process.wait()
            daemon.start()
            job.await_steps(0, 3)
        job.order(3, "stop")
        ends = [job.ends(place) for place in (0, 3)]
        assert len(set(ends)) == 1, ends
        assert ends[0].startswith("end done step"), ends
        assert ends[0].endswith("same"), ends


def test_a_groups_store_stays_until_all_ranks_have_ended_the_group(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip("there is no daemon: build the target harmonaized, or set HARMONAIZE_BUILD")
    stores = tmp_path / "stores"
    stores.mkdir()
    with daemon_in_folder() as daemon:
        monkeypatch.setenv("TMPDIR", str(stores))
        with elastic_job(daemon, tmp_path, "elastic-slow", 3, SLOW_PROGRAM) as job:
            ends = [job.ends(place) for place in range(3)]
            assert ends == ["end done", "end done", "end None"]
            said = [[line for line in job.said(place) if line.startswith("stores")] for place in range(3)]
    assert said == [[], ["stores 1", "stores 1"], ["stores 1"]]
    # PyTorch may leave a folder of its own there.
    assert list(stores.glob("harmonaize-elastic-*")) == []
