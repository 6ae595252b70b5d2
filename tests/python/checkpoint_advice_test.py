"""When jobs are advised to save: by an interval, before what is announced, by request, and after failures."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import typing

import pytest

import harmonaize
from daemons import BUILD, PATIENCE_SECONDS, PROGRAMS, Daemon, daemon_in_folder, eventually, job_at, next_event
from harmonaize.documents import parse_time
from users_test import as_other_user

POLICY = '[policy]\nleast_checkpoint_interval = "1 s"\nchanges_per_minute = 6000\n'


@pytest.fixture(scope="module")
def saving() -> typing.Iterator[Daemon]:
    """A daemon that advises as often as jobs ask for."""
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip(f"there is no daemon in {BUILD}")
    with daemon_in_folder(POLICY) as one:
        yield one


def advised(events: harmonaize.EventStream, why: str) -> harmonaize.Event:
    """The next advice with this reason."""
    while True:
        event = next_event(events)
        if event.data["why"] == why:
            return event


def test_a_stated_interval_is_advised_again_and_again(saving: Daemon) -> None:
    client = saving.client()
    with job_at(saving, "regular") as job, client.events("checkpoint.advised", job.name) as events:
        assert not client.checkpoint_advice(job.name).advised
        client.set_requirements(job.name, "checkpoint.interval = '1 s'")
        advice = client.checkpoint_advice(job.name)
        assert advice.advised
        assert (advice.interval.seconds, advice.interval.basis) == (1, "stated")
        first, second = next_event(events), next_event(events)
        assert (first.data["why"], first.recommended_action) == ("interval", "checkpoint")
        assert second.data["why"] == "interval"
        assert second.sequence > first.sequence
        assert first.deadline is not None
        assert first.deadline > first.time


def test_reports_make_the_interval(saving: Daemon) -> None:
    client = saving.client()
    with job_at(saving, "reporting") as job, client.events("checkpoint.saved", job.name) as events:
        assumed = client.checkpoint_advice(job.name)
        assert (assumed.usual.basis, assumed.last) == ("assumed", None)
        advice = client.report_save(job.name, 100, "storage", stall_seconds=4, seconds=20, size=1 << 30, epoch_end=True)
        assert advice.advised
        assert (advice.usual.basis, advice.usual.stall_seconds, advice.usual.seconds.p50) == ("measured", 4, 20)
        assert advice.interval.basis == "optimum"
        assert advice.interval.seconds < assumed.interval.seconds
        assert advice.interval.optimum.p10 < advice.interval.optimum.p50 < advice.interval.optimum.p90
        assert advice.last is not None
        assert (advice.last.step, advice.last.where, advice.last.bytes) == (100, "storage", 1 << 30)
        saved = next_event(events)
        assert (saved.data["step"], saved.data["where"], saved.data["epoch_end"]) == (100, "storage", True)
        assert (saved.data["took_seconds"], saved.data["stall_seconds"], saved.data["bytes"]) == (20, 4, 1 << 30)
        # Another rank's word of the same checkpoint is no news.
        client.report_save(job.name, 100, "storage", stall_seconds=40)
        client.report_save(job.name, 200, "storage", stall_seconds=6, seconds=20)
        assert next_event(events).data["step"] == 200
        assert client.checkpoint_advice(job.name).usual.stall_seconds == 5
        # What the job bears bounds what is best.
        client.set_requirements(job.name, "checkpoint.most_lost_work = '5 min'\ncheckpoint.importance = 'high'")
        bound = client.checkpoint_advice(job.name).interval
        assert bound.basis == "most_lost_work"
        assert bound.worst_lost_seconds == pytest.approx(300)
        assert bound.keeps_most_lost_work
        client.set_requirements(job.name, "checkpoint.overhead_cap = 0.01")
        capped = client.checkpoint_advice(job.name).interval
        assert (capped.basis, capped.keeps_most_lost_work) == ("overhead_cap", False)
        assert capped.overhead == pytest.approx(0.01)


def test_reports_that_make_no_sense_are_refused(saving: Daemon) -> None:
    client = saving.client()
    with job_at(saving, "wrong") as job:
        for body, reason in (
            ({}, "step"),
            ({"step": 1}, "where"),
            ({"step": 1.5, "where": "peer"}, "whole number"),
            ({"step": 1, "where": "there"}, "memory, peer and storage"),
            ({"step": 1, "where": "peer", "stall_seconds": -1}, "stall_seconds"),
            ({"step": 1, "where": "peer", "seconds": 1e300}, "seconds"),
            ({"step": 1, "where": "peer", "stal_seconds": 1}, "stall_seconds"),
        ):
            with pytest.raises(harmonaize.ProblemError, match=reason) as refused:
                client.call("POST", f"/v1/jobs/{job.id}/checkpoints/reports", body)
            assert refused.value.status == 400
        assert client.checkpoint_advice(job.name).last is None
    with pytest.raises(harmonaize.ProblemError) as gone:
        client.report_save("none", 1, "peer")
    assert gone.value.status == 404
    with pytest.raises(harmonaize.ProblemError) as ended:
        # The daemon may learn a little later that the job's processes have ended.
        for _ in range(400):
            client.report_save(job.id, 1, "peer")
            time.sleep(0.05)
    assert ended.value.status == 409


def test_maintenance_leads_to_advice_before_it(saving: Daemon) -> None:
    client = saving.client()
    with job_at(saving, "maintained") as job, client.events("checkpoint.advised", job.name) as events:
        client.report_save(job.name, 10, "storage", stall_seconds=2, seconds=30)
        maintenance = saving.announce(3600)
        event = advised(events, "maintenance")
        assert (event.recommended_action, event.ranks) == ("checkpoint", (0, 1))
        (moment,) = (one for one in client.checkpoint_advice(job.name).moments if one.why == "maintenance")
        assert moment.fits
        assert not moment.now
        assert event.deadline is not None
        assert event.id in client.promises().answerable
        # It is safe before the maintenance begins: the checkpoint takes half a minute.
        announced = saving.operator().call("GET", "/v1/hosts/this/maintenance")["announced"]
        (begin,) = (one["not_before"] for one in announced if one["id"] == maintenance)
        assert moment.deadline < parse_time(begin)
        assert event.deadline < parse_time(begin)
        saving.withdraw(maintenance)
        eventually(
            "the advice is taken back",
            lambda: all(one.why != "maintenance" for one in client.checkpoint_advice(job.name).moments),
        )


def test_a_notice_too_short_for_a_checkpoint_says_so(saving: Daemon) -> None:
    client = saving.client()
    with job_at(saving, "short") as job, client.events("checkpoint.advised", job.name) as events:
        client.report_save(job.name, 10, "storage", stall_seconds=0.01, seconds=600)
        maintenance = saving.announce(120)
        event = advised(events, "maintenance")
        assert event.recommended_action == "none"
        assert "does not fit" in event.text
        moments = client.checkpoint_advice(job.name).moments
        assert [one.fits for one in moments if one.why == "maintenance"] == [False]
        assert moments[0].why == "interval", "what can be done comes first"
        saving.withdraw(maintenance)


def test_ranks_that_are_asked_to_leave_save_before(saving: Daemon) -> None:
    client, operator = saving.client(), saving.operator()
    with job_at(saving, "leaving") as job, client.events("checkpoint.advised", job.name) as events:
        client.report_save(job.name, 10, "peer", stall_seconds=0.01, seconds=0.02)
        offer = operator.make_offer(job.name, "reclaim", which=[1], within_seconds=900, due_within_seconds=1800)
        event = advised(events, "reclaim")
        assert (event.recommended_action, event.ranks) == ("checkpoint_and_leave", (1,))
        assert event.deadline is not None
        assert offer.terms.due is not None
        assert event.deadline < offer.terms.due
        operator.withdraw_offer(offer)
        eventually(
            "the advice is taken back",
            lambda: all(one.why != "reclaim" for one in client.checkpoint_advice(job.name).moments),
        )


def test_a_host_that_is_failing_is_saved_from_once_and_more_often(saving: Daemon) -> None:
    client = saving.client()
    with job_at(saving, "failing") as job, client.events("checkpoint.advised", job.name) as events:
        before = client.report_save(job.name, 10, "peer", stall_seconds=0.0001, seconds=0.0002)
        made = saving.operator().call("POST", "/v1/hosts/this/maintenance", {"kind": "unhealthy"})
        assert advised(events, "host_failing").recommended_action == "checkpoint"
        after = client.report_save(job.name, 11, "peer", stall_seconds=0.0001, seconds=0.0002)
        assert all(one.why != "host_failing" for one in after.moments), "one checkpoint knows of it"
        assert after.announced_per_day > 0
        assert after.hazard.per_day == pytest.approx(before.hazard.per_day)
        saving.operator().call("POST", "/v1/hosts/this/maintenance", {"id": made["id"], "state": "completed"})
        eventually("it is over", lambda: client.checkpoint_advice(job.name).announced_per_day == 0)


def test_a_tenant_or_an_operator_has_a_job_save_now(saving: Daemon) -> None:
    client = saving.client()
    with job_at(saving, "asked") as job, client.events("checkpoint.advised", job.name) as events:
        moment = client.save_now(job.name)
        assert (moment.why, moment.now, moment.fits) == ("request", True, True)
        event = next_event(events)
        assert (event.data["why"], event.recommended_action) == ("request", "checkpoint")
        assert saving.operator().save_now(job.id).why == "request"
        assert next_event(events).data["why"] == "request"
        with pytest.raises(harmonaize.ProblemError) as often:
            for _ in range(100):
                client.save_now(job.name)
        assert often.value.status == 429


def test_killed_ranks_raise_the_hazard_of_their_job_alone(saving: Daemon) -> None:
    client = saving.client()
    with job_at(saving, "killed") as job, job_at(saving, "bystander") as other:
        for name in (job.name, other.name):
            client.report_save(name, 10, "storage", stall_seconds=5, seconds=20)
        before = client.checkpoint_advice(other.name)
        assert client.checkpoint_advice(job.name).rank_failures == 0
        job.signal(1, signal.SIGKILL)
        eventually("the failure is counted", lambda: client.checkpoint_advice(job.name).rank_failures > 0.9)
        after = client.checkpoint_advice(job.name)
        assert after.causes["rank"].per_day > 2 * before.causes["rank"].per_day
        assert after.interval.seconds < before.interval.seconds
        bystander = client.checkpoint_advice(other.name)
        assert bystander.rank_failures == 0
        for cause in ("host", "link", "early", "reclaim"):
            assert bystander.causes[cause] == before.causes[cause]
        assert bystander.causes["rank"].per_day <= before.causes["rank"].per_day
    # The next run of the same name goes on with what is known.
    with job_at(saving, "killed") as again:
        assert client.checkpoint_advice(again.name).rank_failures == pytest.approx(1, abs=0.01)


def test_another_users_job_is_not_advised_or_asked(saving: Daemon) -> None:
    with job_at(saving, "mine") as job:
        saving.client().report_save(job.name, 10, "peer", seconds=1)

        def look() -> list[typing.Any]:
            client = harmonaize.connect(saving.socket)
            statuses = []
            for name in (job.id, job.name):
                for ask in (
                    client.checkpoint_advice,
                    client.save_now,
                    lambda one: client.report_save(one, 11, "peer"),
                ):
                    try:
                        ask(name)
                    except harmonaize.ProblemError as problem:
                        statuses.append(problem.status)
            return statuses

        assert as_other_user(look) == [404] * 6
        last = saving.client().checkpoint_advice(job.name).last
        assert last is not None
        assert last.step == 10


def test_what_was_learnt_outlives_the_daemon() -> None:
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip(f"there is no daemon in {BUILD}")
    with daemon_in_folder(POLICY) as daemon:
        with job_at(daemon, "kept") as job:
            before = daemon.client().report_save(job.name, 10, "storage", stall_seconds=5, seconds=20)
            job.signal(1, signal.SIGKILL)
            eventually(
                "the failure is counted", lambda: daemon.client().checkpoint_advice(job.name).rank_failures > 0.9
            )
        daemon.stop()
        daemon.start()
        with job_at(daemon, "kept") as job:
            after = daemon.client().checkpoint_advice(job.name)
            assert after.last == before.last
            assert after.usual == before.usual
            assert after.rank_failures == pytest.approx(1, abs=0.01)
            assert after.advised


def test_a_job_that_comes_again_is_advised_an_interval_later(saving: Daemon) -> None:
    client = saving.client()
    with job_at(saving, "again") as job:
        client.report_save(job.name, 10, "storage", stall_seconds=5, seconds=20)
    eventually("the job has ended", lambda: client.job(job.name).ended is not None)
    came = time.time()
    with job_at(saving, "again") as job:
        advice = client.checkpoint_advice(job.name)
    # Times of the interface are rounded.
    assert advice.moments[0].not_before.timestamp() > came + advice.interval.seconds - 0.05


def test_the_command_line_shows_and_asks(saving: Daemon) -> None:
    def run(*words: str) -> str:
        command = [str(PROGRAMS / "harmonaize"), "checkpoints", *words, "--socket", str(saving.socket)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        return done.stdout

    with job_at(saving, "shown") as job:
        saving.client().report_save(job.name, 42, "storage", stall_seconds=5, seconds=20)
        assert "of step 42, in storage" in run("advice"), "the only job"
        table = run("advice", job.name)
        assert "the least time lost in all" in table
        assert "of step 42, in storage" in table
        assert "failures a day" in table
        assert json.loads(run("advice", job.id[:8], "--json"))["last"]["step"] == 42
        assert "a checkpoint is advised by request: now" in run("save", job.name)
