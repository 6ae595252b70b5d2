"""A training goes on when its ranks are lost, leave or come, and no step is lost or done twice."""

from __future__ import annotations

import ctypes
import pathlib
import re

import pytest

from daemons import BUILD, PROGRAMS, Daemon, daemon_in_folder
from elastic_jobs import elastic_job, expect_right, expect_steps_in_order

pytest.importorskip("numpy", reason="NumPy is not installed: pip install numpy, or Debian's python3-numpy")


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "elastic.md"


def test_the_others_go_on_without_a_rank_that_was_killed(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "elastic-one", 4) as job:
        job.await_steps(0, 1, 2, 3)
        job.kill(2)
        job.await_world(0, 3)
        job.await_steps(0, 1, 3)
        expect_right(job, [0, 1, 3], stopper=1)
        assert [job.worlds(place) for place in (0, 1, 3)] == [[(0, 4), (0, 3)], [(1, 4), (1, 3)], [(3, 4), (2, 3)]]
        for place in (0, 1, 3):
            expect_steps_in_order(job, place, changes=1)


def test_rank_0_may_be_the_one_that_is_killed(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "elastic-zero", 3) as job:
        job.await_steps(0, 1, 2)
        job.kill(0)
        job.await_world(1, 2)
        job.await_steps(1, 2)
        expect_right(job, [1, 2], stopper=2)


def test_two_ranks_are_killed_at_once(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "elastic-two", 4) as job:
        job.await_steps(0, 1, 2, 3)
        job.kill(1, 3)
        job.await_world(0, 2)
        job.await_steps(0, 2)
        expect_right(job, [0, 2], stopper=0)


def test_ranks_are_killed_one_after_the_other_until_one_is_left(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "elastic-last", 4) as job:
        job.await_steps(0, 1, 2, 3)
        # The second and third loss come while the others look after the first.
        for place in (0, 3, 1):
            job.kill(place)
        job.await_world(2, 1)
        job.await_steps(2)
        expect_right(job, [2], stopper=2)


def test_a_rank_leaves_on_request(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "elastic-leave", 3) as job:
        job.await_steps(0, 1, 2)
        job.order(1, "leave")
        assert job.ends(1).startswith("end None True step")
        job.await_world(0, 2)
        job.await_steps(0, 2)
        expect_right(job, [0, 2], stopper=0)
        assert [len(job.worlds(place)) for place in (0, 2)] == [2, 2]
        # A request comes between two steps: nothing is done again.
        for place in (0, 2):
            expect_steps_in_order(job, place, changes=0)


def test_a_rank_that_is_reclaimed_leaves_and_the_provider_hears_of_it(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "elastic-reclaim", 3) as job:
        job.await_steps(0, 1, 2)
        announce_reclaim(daemon, "elastic-reclaim", 2)
        assert job.ends(2).startswith("end None True step")
        job.await_world(0, 2)
        expect_right(job, [0, 1], stopper=0)


def test_an_announcement_is_followed_unless_it_is_an_offers(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "elastic-told", 3) as job:
        job.await_steps(0, 1, 2)
        announce_reclaim(daemon, "elastic-told", 1, offer="offer-0123456789abcdef")
        announce_reclaim(daemon, "elastic-told", 2, offer="a-cloud's")
        assert job.ends(2).startswith("end None True step")
        job.await_world(0, 2)
        job.await_steps(0, 1)
        expect_right(job, [0, 1], stopper=0)


def announce_reclaim(daemon: Daemon, job: str, rank: int, **more: str) -> None:
    data = {"ranks": [rank], "deadline": "2099-01-01T00:00:00Z", "notice_seconds": 3600, "confidence": 1, **more}
    text = f"Rank {rank} is taken back."
    body = {"job": job, "type": "capacity.reclaim", "data": {**data, "text": text}}
    daemon.operator().call("POST", "/v1/events", body)


def test_all_ranks_come_together_again_at_a_daemon_that_was_restarted(tmp_path: pathlib.Path) -> None:
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip(f"there is no daemon in {BUILD}")
    with daemon_in_folder() as own, elastic_job(own, tmp_path, "elastic-restart", 3) as job:
        job.await_steps(0, 1, 2)
        own.process.kill()
        own.process.wait()
        own.start()
        job.await_steps(0, 1, 2)
        expect_right(job, [0, 1, 2], stopper=1)
        for place in range(3):
            assert job.worlds(place) == [(place, 3), (place, 3)]
            expect_steps_in_order(job, place, changes=1)


def test_a_rank_that_is_lost_with_its_daemon_is_not_waited_for_for_ever(tmp_path: pathlib.Path) -> None:
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip(f"there is no daemon in {BUILD}")
    with daemon_in_folder() as own, elastic_job(own, tmp_path, "elastic-both", 3) as job:
        job.await_steps(0, 1, 2)
        own.process.kill()
        own.process.wait()
        job.kill(1)
        own.start()
        job.await_world(0, 2)
        job.await_steps(0, 2)
        expect_right(job, [0, 2], stopper=2)


def test_newcomers_join_by_tickets_and_have_the_state(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    if not has_tickets():
        pytest.skip("the library knows no tickets")
    with elastic_job(daemon, tmp_path, "elastic-grow", 2) as job:
        job.await_steps(0, 1)
        newcomers = []
        for asked in (0, 1):
            job.order(asked, "ticket")
            ticket = job.await_line(asked, "ticket ").split()[1]
            newcomers.append(job.add(ticket))
            job.await_world(0, 3 + asked)
        assert newcomers == [2, 3]
        job.await_steps(0, 1, 2, 3)
        # A newcomer serves as well as others when ranks are lost.
        job.kill(0, 1)
        job.await_world(2, 2)
        job.await_steps(2, 3)
        expect_right(job, [2, 3], stopper=3)
        assert job.worlds(3)[-1] == (1, 2)
        assert min(job.steps(3)) > 1


def has_tickets() -> bool:
    return hasattr(ctypes.CDLL(str(BUILD / "lib" / "libnccl.so.2")), "hzJoinJob")


def test_the_example_of_the_page_goes_on_without_a_rank(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    text, *_ = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    program = tmp_path / "regression.py"
    program.write_text(text)
    with elastic_job(daemon, tmp_path, "elastic-page", 3, [str(program)]) as job:
        job.await_steps(0, 1, 2)
        job.kill(1)
        ends = [job.ends(place) for place in (0, 2)]
        assert ends == ["weights 3.0 -2.0 0.5 1.0"] * 2
        assert job.worlds(0) == [(0, 3), (0, 2)]
        assert job.steps(0)[-1] == 300
