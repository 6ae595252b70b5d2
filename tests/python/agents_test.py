"""Launchers as agents of elastic jobs: ranks start and stop as places are offered and asked back."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal

import pytest

import harmonaize
from daemons import PATIENCE_SECONDS, Daemon, daemon_in_folder, eventually
from launchers import launched

pytest.importorskip("numpy", reason="NumPy is not installed: pip install numpy, or Debian's python3-numpy")

# Both daemons of a test reach each other, and are hosts of their own to all that they do.
CLUSTER = '[cluster]\naddress = "127.0.0.{host}:0"\nallow_unauthenticated = true\n'


def has_ended(daemon: Daemon, offer: str, state: str) -> bool:
    seen = daemon.operator().offer(offer)
    assert not seen.ended or seen.state == state, seen
    return seen.ended


def test_ranks_come_and_leave_as_it_is_offered(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    operator = daemon.operator()
    with launched(daemon, tmp_path / "out", "-n", "2", "--elastic", "1:4", "--name", "elastic-run") as run:
        run.await_size(2)
        grow = operator.make_offer("elastic-run", "grow", ranks=2, within_seconds=60)
        assert grow.state == "accepted", "the launcher has said so in advance"
        run.await_size(4)
        eventually("the places are taken", lambda: has_ended(daemon, grow.id, "fulfilled"))
        reclaim = operator.make_offer("elastic-run", "reclaim", ranks=1, within_seconds=30)
        assert len(reclaim.terms.which) == 1
        run.await_size(3)
        eventually("the rank has left", lambda: has_ended(daemon, reclaim.id, "fulfilled"))
        run.stop()
        assert run.process.wait(PATIENCE_SECONDS) == 0, run.said()
        assert len(re.findall(r"end done .* wrong 0", run.said())) == 3, run.said()


def test_places_beyond_the_most_are_not_taken(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with launched(daemon, tmp_path / "out", "-n", "2", "--elastic", "1:3", "--name", "elastic-most") as run:
        run.await_size(2)
        with pytest.raises(Exception, match="at most 1 more ranks"):
            daemon.operator().make_offer("elastic-most", "grow", ranks=2, within_seconds=60)
        run.stop()
        assert run.process.wait(PATIENCE_SECONDS) == 0, run.said()


def test_a_key_of_the_requirements_takes_the_place_of_ours_alone(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    stated = tmp_path / "stated.toml"
    stated.write_text('[elastic]\noffers = "ask"\nmost_ranks = 1\n')
    options = ["-n", "2", "--elastic", "2:4", "--name", "elastic-keys", "--requirements", str(stated)]
    with launched(daemon, tmp_path / "out", *options) as run:
        run.await_size(2)

        expected = {"elastic.least_ranks": 1, "elastic.most_ranks": 1, "elastic.offers": "ask"}
        eventually("the keys fit each other", lambda: daemon.client().granted("elastic-keys").raw["values"] == expected)
        run.stop()
        assert run.process.wait(PATIENCE_SECONDS) == 0, run.said()


def test_an_agent_of_an_id_is_one_of_a_job_that_is_here(daemon: Daemon) -> None:
    with pytest.raises(harmonaize.ProblemError, match="no job of this id"):
        daemon.client().call("POST", "/v1/agents", {"job": "0123456789abcdef" * 2, "places": 1})


def test_a_rank_that_came_later_is_killed(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with launched(daemon, tmp_path / "out", "-n", "2", "--elastic", "2:4", "--name", "elastic-kill") as run:
        run.await_size(2)
        daemon.operator().make_offer("elastic-kill", "grow", ranks=1, within_seconds=60)
        run.await_size(3)
        before = run.said().count("world 0 2")
        os.kill(run.pid_of(2), signal.SIGKILL)
        eventually("the others go on", lambda: run.said().count("world 0 2") > before)
        run.stop()
        assert run.process.wait(PATIENCE_SECONDS) == 0, run.said()
        assert "the job goes on without it" in run.said()


def test_an_agent_outlives_its_daemon(tmp_path: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(daemon_in_folder())
        name = ["-n", "2", "--elastic", "1:3", "--name", "elastic-restart"]
        run = stack.enter_context(launched(daemon, tmp_path / "out", *name))
        run.await_size(2)
        before = run.said().count("world 0 2")
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        eventually("the ranks go on at the new daemon", lambda: run.said().count("world 0 2") > before)
        eventually("places are offered", lambda: offered(daemon, "elastic-restart", ranks=1))
        run.await_size(3)
        run.stop()
        assert run.process.wait(PATIENCE_SECONDS) == 0, run.said()


def test_ranks_end_with_their_launcher_and_places_are_forgotten(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with launched(daemon, tmp_path / "out", "-n", "1", "--elastic", "1:3", "--name", "elastic-gone") as run:
        run.await_size(1)
        daemon.operator().make_offer("elastic-gone", "grow", ranks=1, within_seconds=60)
        run.await_size(2)
        newcomer = run.pid_of(1)
        run.process.kill()
        run.process.wait()
        eventually("no rank is left", lambda: not pathlib.Path(f"/proc/{newcomer}").exists())
        agents = daemon.operator().call("GET", "/v1/agents")
        assert [one["places"] for one in agents["agents"] if one["name"] == "elastic-gone"] in ([], [1])


def test_a_host_joins_by_a_ticket_and_ends_with_the_job(tmp_path: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        here, there = (stack.enter_context(daemon_in_folder(CLUSTER.format(host=host))) for host in (1, 2))
        name = ["--elastic", "1:4", "--name", "elastic-hosts"]
        run = stack.enter_context(launched(here, tmp_path / "here", "-n", "1", *name))
        run.await_size(1)
        file = tmp_path / "ticket"
        file.touch(mode=0o600)
        file.write_text(here.client().make_ticket("elastic-hosts", uses=1, seconds=600).ticket)
        joined = stack.enter_context(launched(there, tmp_path / "there", "--ticket", str(file), *name))
        grow = eventually("the other host hears of the job", lambda: offered(there, "elastic-hosts"))
        joined.await_size(3)
        run.await_size(3)
        eventually("the places are taken", lambda: has_ended(there, grow, "fulfilled"))
        # Both ranks of the other host leave, and it stays part of the job.
        there.operator().make_offer("elastic-hosts", "reclaim", ranks=2, within_seconds=30)
        eventually("both have left", lambda: run.said().count("world 0 1 ") == 2)
        assert joined.process.poll() is None, joined.said()
        again = eventually("places are offered again", lambda: offered(there, "elastic-hosts"))
        eventually("the places are taken again", lambda: has_ended(there, again, "fulfilled"))
        run.stop()
        assert run.process.wait(PATIENCE_SECONDS) == 0, run.said()
        assert joined.process.wait(PATIENCE_SECONDS) == 0, joined.said()


def test_rank_0_answers_the_offers_of_another_host(tmp_path: pathlib.Path) -> None:
    asks = tmp_path / "asks.toml"
    asks.write_text('[elastic]\noffers = "ask"\n')
    with contextlib.ExitStack() as stack:
        here, there = (stack.enter_context(daemon_in_folder(CLUSTER.format(host=host))) for host in (1, 2))
        options = ["--elastic", "1:4", "--name", "elastic-asked", "--requirements", str(asks)]
        run = stack.enter_context(launched(here, tmp_path / "here", "-n", "1", *options))
        run.await_size(1)
        file = tmp_path / "ticket"
        file.touch(mode=0o600)
        file.write_text(here.client().make_ticket("elastic-asked", uses=1, seconds=600).ticket)
        joined = stack.enter_context(launched(there, tmp_path / "there", "--ticket", str(file), *options))
        grow = eventually("the other host hears of the job", lambda: offered(there, "elastic-asked"))
        eventually("the places are taken", lambda: has_ended(there, grow, "fulfilled"))
        run.await_size(3)
        reclaim = there.operator().make_offer("elastic-asked", "reclaim", ranks=1, within_seconds=60)
        assert reclaim.state == "offered"
        eventually("the rank has left", lambda: has_ended(there, reclaim.id, "fulfilled"))
        run.await_size(2)
        run.stop()
        assert run.process.wait(PATIENCE_SECONDS) == 0, run.said()
        assert joined.process.wait(PATIENCE_SECONDS) == 0, joined.said()
        assert "end None True" in joined.said()
        assert len(re.findall(r"end done .* wrong 0", run.said() + joined.said())) == 2, run.said() + joined.said()


def offered(daemon: Daemon, job: str, ranks: int = 2) -> str:
    """Offers places. Returns the offer's id; "" where the daemon does not know the job yet."""
    try:
        return daemon.operator().make_offer(job, "grow", ranks=ranks, within_seconds=60).id
    except harmonaize.ProblemError as problem:
        said = str(problem)
    assert any(word in said for word in ("no such job", "no ranks and no agent", "asked already")), said
    return ""


def test_a_wrong_ticket_is_told(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "ticket"
    file.touch(mode=0o600)
    file.write_text("no ticket\n")
    options = ["--ticket", str(file), "--elastic", "1:4", "--name", "elastic-wrong"]
    with launched(daemon, tmp_path / "out", *options) as run:
        eventually("the launcher says why", lambda: "a ticket" in run.said())


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--elastic", "3:2"], "expected MIN"),
        (["--elastic", "x"], "expected MIN"),
        (["--elastic", "1:2", "-n", "3", "--name", "a"], "which is more"),
        (["--elastic", "2", "-n", "1"], "which is fewer"),
        (["--elastic", "1:2"], "--name"),
        (["--places", "2"], "needs --elastic MIN:MAX"),
        (["--ticket", "file"], "needs --elastic MIN:MAX"),
        (["--ticket", "file", "--elastic", "1:2", "-n", "1", "--name", "a"], "leave -n out"),
        (["--daemon", "none", "--elastic", "1:2", "--name", "a"], "needs a daemon"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    daemon: Daemon, tmp_path: pathlib.Path, options: list[str], word: str
) -> None:
    with launched(daemon, tmp_path / "out", *options) as run:
        assert run.process.wait(PATIENCE_SECONDS) == 2, run.said()
        assert word in run.said()
