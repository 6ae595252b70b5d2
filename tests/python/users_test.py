"""Two users of a host: neither hears of the other's jobs."""

from __future__ import annotations

import json
import os
import typing

import pytest

import harmonaize
from daemons import OTHER_USER, PATIENCE_SECONDS, Daemon, Job, job_at


def as_other_user(action: typing.Callable[[], typing.Any]) -> typing.Any:
    """Returns what the action returns in a process of another user."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            os.write(writer, json.dumps(action()).encode())
            status = 0
        except BaseException as error:  # noqa: BLE001
            os.write(writer, json.dumps(f"{type(error).__name__}: {error}").encode()[:4000])
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as answers:
        said = json.loads(answers.read())
    _, status = os.waitpid(child, 0)
    assert status == 0, said
    return said


def test_another_users_job_is_not_there(daemon: Daemon, job: Job) -> None:
    def look() -> list[typing.Any]:
        client = harmonaize.connect(daemon.socket)
        statuses = []
        for ask in (client.job, client.communicators, client.ranks, client.operations, client.stuck, client.flight):
            try:
                ask(job.id)
            except harmonaize.ProblemError as problem:
                statuses.append(problem.status)
        return [client.whoami().tenant, [one.id for one in client.jobs()], statuses]

    tenant, jobs, statuses = as_other_user(look)
    assert str(OTHER_USER) in tenant
    assert jobs == []
    assert statuses == [404] * 6


def test_another_users_requirements_are_not_seen_or_changed(daemon: Daemon, job: Job) -> None:
    daemon.client().set_requirements(job.id, "faults.late_after = '7 s'")
    before = daemon.client().granted(job.id)

    def look() -> list[typing.Any]:
        client = harmonaize.connect(daemon.socket)
        said = []
        for name in (job.id, job.name, "none"):
            for ask in (
                client.requirements,
                client.granted,
                client.progress,
                client.forget_requirements,
                lambda name: client.set_requirements(name, "job.kind = 'batch'"),
                lambda name: client.report_progress(name, 1),
            ):
                try:
                    said.append(str(ask(name)))
                except harmonaize.ProblemError as problem:
                    said.append(f"{problem.status} {problem.detail}")
        return [said, client.policy().tenants, client.check_requirements("job.kind = 'batch'").values]

    said, tenants, values = as_other_user(look)
    assert set(said) == {"404 there is no such job here; GET /v1/jobs lists yours"}
    assert len(said) == 18
    assert (tenants, values) == ([], {"job.kind": "batch"})
    assert daemon.client().granted(job.id) == before
    daemon.client().forget_requirements(job.id)


def test_another_users_offers_are_not_seen_or_answered(daemon: Daemon, job: Job) -> None:
    operator = daemon.operator()
    made = operator.make_offer(job.name, "grow", within_seconds=600)
    unknown = "offer-0123456789abcdef"

    def look() -> list[typing.Any]:
        client = harmonaize.connect(daemon.socket)
        said = []
        for name in (made.id, made.id[:14], unknown):
            for ask in (
                client.offer,
                client.accept_offer,
                client.decline_offer,
                lambda name: client.counter_offer(name, ranks=2),
            ):
                try:
                    said.append(str(ask(name)))
                except harmonaize.ProblemError as problem:
                    said.append(f"{problem.status} {problem.detail}".replace(name, "NAME"))
        statuses = []
        for step in (
            client.take_offer,
            client.keep_offer,
            client.withdraw_offer,
            lambda offer: client.propose_offer(offer, ranks=2),
            lambda _: client.make_offer(job.name, "grow", within_seconds=600),
        ):
            try:
                step(made.id)
            except harmonaize.ProblemError as problem:
                statuses.append(problem.status)
        return [said, statuses, len(client.offers()), len(client.offers(job.name))]

    said, statuses, *seen = as_other_user(look)
    assert set(said) == {"404 there is no offer 'NAME' here; `harmonaize offers` lists them"}
    assert len(said) == 12
    assert statuses == [404, 404, 404, 404, 405]
    assert seen == [0, 0]
    assert operator.offer(made) == made
    operator.withdraw_offer(made)


def test_another_users_events_are_not_heard_or_answered(daemon: Daemon, job: Job) -> None:
    maintenance = daemon.announce(3600)
    (event,) = (one for one in daemon.client().kept_events("maintenance.scheduled") if _is_about(one, maintenance))
    assert isinstance(event, harmonaize.Event)

    def listen() -> list[typing.Any]:
        client = harmonaize.connect(daemon.socket)
        statuses = []
        for answer in (client.acknowledge, lambda event_id: client.extend(event_id, seconds=60)):
            try:
                answer(event.id)
            except harmonaize.ProblemError as problem:
                statuses.append(problem.status)
        with client.events(start="start", timeout=0.1) as events, client.events(job=job.id, timeout=0.1) as of_job:
            heard = [one.type for one in [*events, *of_job]]
        return [statuses, heard, [one.type for one in client.kept_events()], list(client.promises().answerable)]

    assert as_other_user(listen) == [[404, 404], [], [], []]
    daemon.withdraw(maintenance)


def _is_about(event: harmonaize.Event | harmonaize.Missed, maintenance: str) -> bool:
    return isinstance(event, harmonaize.Event) and event.data["maintenance"] == maintenance


def test_the_operators_socket_is_closed_to_others(daemon: Daemon) -> None:
    def look() -> str:
        try:
            harmonaize.connect(daemon.socket, as_operator=True)
        except harmonaize.NoDaemonError as error:
            return str(error)
        return "it opened"

    said = as_other_user(look)
    assert "Permission denied" in said
    assert "operators are root" in said


def test_a_daemon_of_another_user_is_not_believed(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    # This daemon is root's. To a user who would not believe root it looks as a stranger's looks to everybody.
    monkeypatch.setattr("harmonaize.trust.os.geteuid", lambda: 4711)
    monkeypatch.setattr("harmonaize.trust._ROOT", 4712)
    with pytest.raises(harmonaize.UntrustedDaemonError, match="is not believed: it runs as user"):
        daemon.client()


def test_an_operator_hears_of_all_jobs(daemon: Daemon) -> None:
    with daemon.operator().events("rank.lost") as events, job_at(daemon, "seen") as job:
        job.end()
        event = events.next(PATIENCE_SECONDS)
        assert isinstance(event, harmonaize.Event)
        assert (event.job, event.tenant) == (job.id, daemon.client().whoami().tenant)
