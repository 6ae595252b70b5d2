"""Sizes of elastic jobs follow the load by the daemon's own decisions."""

from __future__ import annotations

import contextlib
import os
import pathlib
import typing

import pytest

import harmonaize
from daemons import Daemon, daemon_in_folder, eventually, free_port
from launchers import Launcher, launched

pytest.importorskip("numpy", reason="NumPy is not installed: pip install numpy, or Debian's python3-numpy")

# Ranks that share the work of each step, which is long beside all else.
WORK = ["--work", "0.06"]
# Looks that are soon, and a pause after offers that a test can wait for.
SIZING = """[elastic]
enabled = true
places = {places}
look_every_seconds = 0.2
answer_within_seconds = 20
notice_seconds = 30
settle_seconds = 0.5
"""
CLUSTER = """[cluster]
address = "127.0.0.{host}:{port}"
controller = "127.0.0.1:{port}"
allow_unauthenticated = true
"""


@contextlib.contextmanager
def sizing_daemon(places: int, more: str = "") -> typing.Iterator[Daemon]:
    """A daemon that decides on sizes, or whose controller does."""
    with daemon_in_folder(SIZING.format(places=places) + more) as one:
        yield one


def elasticity(daemon: Daemon) -> dict[str, typing.Any]:
    """What the daemon knows and has decided."""
    document: dict[str, typing.Any] = daemon.operator().call("GET", "/v1/elasticity")
    assert document["enabled"]
    return document


def set_waiting(daemon: Daemon, *jobs: dict[str, typing.Any]) -> None:
    """Says which jobs wait."""
    daemon.operator().call("PUT", "/v1/elasticity/waiting", {"jobs": list(jobs), "for_seconds": 3600})


def end_well(run: Launcher, *others: Launcher) -> None:
    """Ends the training; nothing was lost or done twice."""
    run.stop()
    for one in (run, *others):
        assert one.process.wait(60) == 0, one.said()
        assert " wrong 0" in one.said()


def test_free_places_are_offered_and_asked_back_for_who_waits(tmp_path: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(sizing_daemon(4))
        options = ["-n", "2", "--elastic", "1:8", "--name", "sized"]
        run = stack.enter_context(launched(daemon, tmp_path / "out", *options, rank=WORK))
        # The job tells how long its steps take, and gets all places that there are.
        run.await_size(4)
        eventually("no place is free", lambda: elasticity(daemon)["hosts"][0]["free"] == 0)
        grown = [one for one in daemon.operator().offers() if one.kind == "grow"]
        assert grown
        assert all(one.expected_step_seconds and "a step is expected to take" in one.purpose for one in grown)
        decisions = elasticity(daemon)["decisions"]
        assert sum(one["ranks"] for one in decisions if one["kind"] == "grow") == 2, decisions
        # A job that needs three places waits.
        set_waiting(daemon, {"name": "newcomer", "ranks": 3})
        run.await_size(1)
        eventually("three places are free", lambda: elasticity(daemon)["hosts"][0]["free"] == 3)
        assert elasticity(daemon)["decisions"][0]["why"] == "the places are needed for work that waits"
        assert run.process.poll() is None
        # They are kept for it, for as long as it waits.
        set_waiting(daemon)
        before = run.said().count("world 0 4 ")
        eventually("the job has them again", lambda: run.said().count("world 0 4 ") > before)
        end_well(run)


def test_a_job_at_two_hosts_is_offered_places_at_both_by_the_controller(tmp_path: pathlib.Path) -> None:
    port = free_port()
    with contextlib.ExitStack() as stack:
        here, there = (stack.enter_context(sizing_daemon(2, CLUSTER.format(host=host, port=port))) for host in (1, 2))
        name = ["--elastic", "1:8", "--name", "sized-hosts"]
        run = stack.enter_context(launched(here, tmp_path / "here", "-n", "1", *name, rank=WORK))
        run.await_size(2)
        file = tmp_path / "ticket"
        file.touch(mode=0o600)
        file.write_text(here.client().make_ticket("sized-hosts", uses=1, seconds=600).ticket)
        joined = stack.enter_context(launched(there, tmp_path / "there", "--ticket", str(file), *name, rank=WORK))
        joined.await_size(4)
        hosts = eventually("all places are taken", lambda: taken(here))
        assert sorted(one["host"] for one in hosts) == [f"127.0.0.{host}:{port}" for host in (1, 2)]
        seen = there.operator().call("GET", "/v1/elasticity")
        assert not seen["decides"]
        assert seen["controller"] == f"127.0.0.1:{port}"
        with pytest.raises(harmonaize.ProblemError, match=f"the controller at 127.0.0.1:{port} decides"):
            set_waiting(there, {"name": "lost", "ranks": 1})
        set_waiting(here, {"name": "newcomer", "ranks": 1})
        eventually("a rank has left", lambda: sum(one["free"] for one in elasticity(here)["hosts"]) == 1)
        end_well(run, joined)


def taken(daemon: Daemon) -> list[dict[str, typing.Any]] | None:
    """The hosts, once two have told of them and none has a free place."""
    hosts: list[dict[str, typing.Any]] = elasticity(daemon)["hosts"]
    return hosts if len(hosts) == 2 and all(one["free"] == 0 for one in hosts) else None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes other users")
def test_a_tenant_has_no_more_than_its_share_whatever_it_tells(tmp_path: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(sizing_daemon(6))
        options = ["-n", "1", "--elastic", "1:6", "--name"]
        honest = stack.enter_context(launched(daemon, tmp_path / "honest", *options, "honest", rank=WORK, user=64012))
        honest.await_size(6)
        # The other one tells of steps that end a thousand times as soon.
        liar = stack.enter_context(
            launched(daemon, tmp_path / "liar", *options, "liar", rank=[*WORK, "--boast"], user=64013)
        )
        liar.await_size(3)
        eventually("both have three ranks", lambda: sizes(daemon) == {"honest": 3, "liar": 3})
        shares = {one["tenant"]: one["share"] for one in elasticity(daemon)["tenants"]}
        assert set(shares.values()) == {3}, shares


def sizes(daemon: Daemon) -> dict[str, int]:
    """The number of ranks of each elastic job."""
    return {one["name"]: one["ranks"] for one in elasticity(daemon)["jobs"]}


def test_a_job_that_declines_or_says_nothing_is_left_alone(tmp_path: pathlib.Path) -> None:
    says_no = tmp_path / "no.toml"
    says_no.write_text('[elastic]\noffers = "decline"\n')
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(sizing_daemon(6))
        options = ["-n", "2", "--elastic", "1:8", "--name", "declines", "--requirements", str(says_no)]
        declines = stack.enter_context(launched(daemon, tmp_path / "no", *options))
        silent = stack.enter_context(launched(daemon, tmp_path / "silent", "-n", "2", "--name", "silent"))
        declines.await_size(2)
        silent.await_size(2)
        eventually("both have places", lambda: elasticity(daemon)["hosts"][0]["free"] == 2)
        assert elasticity(daemon)["jobs"] == []
        set_waiting(daemon, {"name": "newcomer", "ranks": 4})
        eventually("it waits", lambda: elasticity(daemon)["waiting"])
        assert not daemon.operator().offers()
        end_well(declines)
        end_well(silent)


def test_a_daemon_goes_on_deciding_after_a_restart(tmp_path: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(sizing_daemon(3))
        options = ["-n", "1", "--elastic", "1:8", "--name", "sized-again"]
        run = stack.enter_context(launched(daemon, tmp_path / "out", *options, rank=WORK))
        run.await_size(3)
        daemon.process.kill()
        daemon.process.wait()
        daemon.config.write_text(daemon.config.read_text().replace("places = 3", "places = 4"))
        daemon.start()
        run.await_size(4)
        end_well(run)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "'jobs'"),
        ({"jobs": 3}, "a list of at most 256 jobs"),
        ({"jobs": [{"name": "a"}]}, "'ranks'"),
        ({"jobs": [{"ranks": 0}]}, "'ranks'"),
        ({"jobs": [{"ranks": 1.5}]}, "'ranks' is a whole number"),
        ({"jobs": [{"ranks": 1, "priority": 9}]}, "'priority'"),
        ({"jobs": [{"ranks": 1, "rank": 1}]}, "did you mean 'ranks'"),
        ({"jobs": [7]}, "object"),
        ({"jobs": [{"ranks": 1}] * 257}, "a list of at most 256 jobs"),
        ({"jobs": [], "for_seconds": 0}, "'for_seconds'"),
    ],
)
def test_a_list_of_waiting_jobs_that_cannot_be_is_refused(
    daemon: Daemon, body: dict[str, typing.Any], problem: str
) -> None:
    with pytest.raises(harmonaize.ProblemError, match=problem):
        daemon.operator().call("PUT", "/v1/elasticity/waiting", body)


def test_without_the_providers_wish_nothing_is_decided(daemon: Daemon) -> None:
    assert daemon.operator().call("GET", "/v1/elasticity")["enabled"] is False
    with pytest.raises(harmonaize.ProblemError, match=r"'elastic\.enabled'"):
        set_waiting(daemon, {"name": "newcomer", "ranks": 1})
    with pytest.raises(harmonaize.ProblemError):
        daemon.client().call("GET", "/v1/elasticity")
