"""Maintenance that is announced: heard, acknowledged, put off, and promised."""

from __future__ import annotations

import datetime

import pytest

import harmonaize
from daemons import Daemon, Job, eventually, next_event


def test_maintenance_is_heard_and_acknowledged(daemon: Daemon, job: Job) -> None:
    client = daemon.client()
    with client.events(["maintenance.*", "notice.answered"], job.name) as events:
        maintenance = daemon.announce(3600, duration_seconds=60)
        event = next_event(events)
        assert (event.name, event.data["maintenance"], event.ranks) == ("maintenance.scheduled", maintenance, (0, 1))
        assert event.recommended_action == "checkpoint"
        assert event.deadline is not None
        answer = client.acknowledge(event)
        assert (answer.event, answer.job, answer.deadline) == (event.id, job.id, event.deadline)
        assert answer.acknowledged is not None
        assert answer.asked is None
        assert next_event(events).data["answer"] == "acknowledged"
        assert event.id in client.promises().answerable
        daemon.withdraw(maintenance)
        assert next_event(events).name == "maintenance.completed"
        # The same answer again changes nothing; another one comes too late.
        assert client.acknowledge(event.id).acknowledged == answer.acknowledged
        with pytest.raises(harmonaize.ProblemError) as caught:
            client.extend(event, seconds=60)
        assert caught.value.status == 409
        (promise,) = (one for one in client.promises().promises if one.id == maintenance)
        assert promise.withdrawn
        assert promise.told[0].acknowledged == answer.acknowledged


def test_more_time_is_asked_for(daemon: Daemon, job: Job) -> None:
    client = daemon.client()
    with client.events("maintenance.scheduled", job.name) as events:
        maintenance = daemon.announce(3600)
        event = next_event(events)
        assert event.deadline is not None
        later = client.extend(event, seconds=600)
        assert later.asked_until == event.deadline + datetime.timedelta(seconds=600)
        until = (event.deadline + datetime.timedelta(hours=2)).astimezone(
            datetime.timezone(datetime.timedelta(hours=5))
        )
        assert client.extend(event.id, until=until).asked_until == until
        told = daemon.operator().call("GET", "/v1/hosts/this/maintenance")["announced"]
        assert [one["jobs_asked_for_more_time"] for one in told if one["id"] == maintenance] == [1]
        daemon.withdraw(maintenance)
    with pytest.raises(ValueError, match="how many seconds, or until when"):
        client.extend(event)
    with pytest.raises(ValueError, match="time zone"):
        client.extend(event, until=datetime.datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="JSON"):
        client.extend(event, seconds=float("nan"))


def test_nothing_is_answered_that_nobody_told(daemon: Daemon, job: Job) -> None:
    with pytest.raises(harmonaize.ProblemError) as caught:
        daemon.client().acknowledge(f"{job.id}.0123456789abcdef")
    assert caught.value.status == 404


def test_a_promise_that_was_kept_says_so(daemon: Daemon, job: Job) -> None:
    client = daemon.client()
    maintenance = daemon.announce(1)

    def promise() -> harmonaize.Promise:
        return next(one for one in client.promises().promises if one.id == maintenance)

    assert promise().kept is None
    assert [answer.job for answer in promise().told] == [job.id]

    def begins() -> bool:
        try:
            daemon.operator().call("POST", "/v1/hosts/this/maintenance", {"id": maintenance, "state": "started"})
        except harmonaize.ProblemError:
            return False
        return True

    eventually("it may begin", begins)
    assert promise().kept
    assert promise().began is not None
    daemon.operator().call("POST", "/v1/hosts/this/maintenance", {"id": maintenance, "state": "completed"})
    assert promise().ended is not None
