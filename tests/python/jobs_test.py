"""Jobs, their ranks and what hangs, while a job runs."""

from __future__ import annotations

import datetime
import signal
import typing

import pytest

import harmonaize
from daemons import Daemon, Job, all_reduce_perf, eventually, job_at


def test_a_benchmark_that_runs_is_listed_with_its_ranks(daemon: Daemon) -> None:
    client = daemon.client()
    with all_reduce_perf(daemon, "bench"):

        def reduces() -> harmonaize.JobSummary | None:
            return next((job for job in client.jobs() if job.name == "bench" and job.operations > 0), None)

        summary = eventually("the benchmark reduces", reduces)
        assert summary.kind == "training"
        assert summary.ended is None
        assert summary.began.tzinfo is datetime.UTC
        assert [one.size for one in summary.communicators] == [2]
        job = client.job(summary.id)
        assert (job.id, job.name) == (summary.id, "bench")
        assert job.communicators[0].bytes > 0
        (ranks,) = client.ranks("bench")
        assert ranks.communicator == job.communicators[0].id
        assert [(one.rank, one.here, one.left) for one in ranks.ranks] == [(0, True, False), (1, True, False)]
        assert {one.process for one in ranks.ranks} == {None}
    eventually("the job has ended", lambda: client.job("bench").ended)


def test_an_operator_reads_the_processes(daemon: Daemon, job: Job) -> None:
    (ranks,) = daemon.operator().ranks(job.id)
    assert [one.process for one in ranks.ranks] == [process.pid for process in job.processes]
    assert daemon.operator().job(job.id).tenant is not None


def test_communicators_have_the_names_that_the_program_gave(daemon: Daemon, job: Job) -> None:
    (communicator,) = daemon.client().communicators(job.name)
    assert (communicator.name, communicator.size, communicator.state) == ("world", 2, "ready")
    assert communicator.raw["kind"] == communicator.kind
    assert hash(communicator) == hash(daemon.client().communicators(job.name)[0])


def test_an_operation_that_waits_is_told_with_its_verdict(daemon: Daemon) -> None:
    client = daemon.client()
    with job_at(daemon, "hangs") as job:
        assert client.stuck("hangs") == ()
        job.signal(1, signal.SIGSTOP)
        job.reduce(0)
        (operation,) = eventually("an operation waits", lambda: client.operations("hangs"))
        assert operation.missing_ranks == (1,)
        (verdict,) = eventually("there is a verdict", lambda: client.stuck("hangs"))
        assert (verdict.class_, verdict.doing, verdict.ranks, verdict.fault) == ("not_called", "stopped", (1,), True)
        assert (verdict.job, verdict.job_name, verdict.communicator_name) == (job.id, "hangs", "world")
        assert [root.rank for root in verdict.roots] == [1]
        assert verdict.way_out is not None
        assert verdict.operation is not None
        assert verdict.operation.sequence is not None
        assert client.job("hangs").stuck[0].class_ == "not_called"
        assert [one.job for one in daemon.operator().all_stuck()] == [job.id]
        (communicator,) = client.flight("hangs").communicators
        assert communicator.stuck is not None
        assert (communicator.stuck.job, communicator.stuck.job_name) == (job.id, "hangs")
        (pending,) = communicator.ranks[0].operations
        assert (pending.collective, pending.count) == ("AllReduce", 1024)
        assert communicator.ranks[0].counts["AllReduce"] == 1
        job.signal(1, signal.SIGCONT)
        job.reduce(1)
        job.await_reduced()
        eventually("nothing hangs", lambda: not client.stuck("hangs"))


def test_a_job_that_is_not_there_is_a_problem(daemon: Daemon) -> None:
    with pytest.raises(harmonaize.ProblemError, match="no such job") as caught:
        daemon.client().job("nobody's/job ?")
    assert (caught.value.status, caught.value.title, caught.value.type) == (404, "Not Found", "about:blank")


def test_names_that_no_path_can_have_are_refused_here(daemon: Daemon) -> None:
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="path"):
            daemon.client().job(name)


def test_operators_questions_do_not_exist_for_tenants(daemon: Daemon) -> None:
    with pytest.raises(harmonaize.ProblemError) as caught:
        daemon.client().all_stuck()
    assert caught.value.status == 404
    assert daemon.operator().call("GET", "/v1/hosts") is not None


def test_the_daemon_says_who_the_caller_is(daemon: Daemon) -> None:
    caller = daemon.client().whoami()
    assert caller.scope == "tenant"
    assert caller.tenant is not None
    assert daemon.operator().whoami() == harmonaize.Caller("operator", None, {})
    assert daemon.client().is_ready()
    assert caller.tenant is not None
    assert len(daemon.client().usage()) == 1


def test_every_field_of_the_document_has_its_place(daemon: Daemon, job: Job) -> None:
    """What the OpenAPI document requires is a field of the class."""
    schemas = daemon.client().call("GET", "/v1/openapi.json")["components"]["schemas"]
    renamed = {"class": "class_"}
    classes: dict[str, type] = {
        "JobSummary": harmonaize.JobSummary,
        "Job": harmonaize.Job,
        "Communicator": harmonaize.Communicator,
        "Rank": harmonaize.Rank,
        "Operation": harmonaize.Operation,
        "Forming": harmonaize.Forming,
        "Verdict": harmonaize.Verdict,
        "EndedCommunicators": harmonaize.EndedCommunicators,
        "Timed": harmonaize.Timed,
        "Answer": harmonaize.Answer,
        "Promise": harmonaize.Promise,
        "Caller": harmonaize.Caller,
        "EventType": harmonaize.EventType,
        "Requirements": harmonaize.Requirements,
        "Grant": harmonaize.Grant,
        "Granted": harmonaize.Granted,
        "Shortfall": harmonaize.Shortfall,
        "Progress": harmonaize.Progress,
        "TenantPolicy": harmonaize.TenantPolicy,
        "Policy": harmonaize.Policy,
    }
    for name, one in classes.items():
        fields = typing.get_type_hints(one)
        required = {renamed.get(field, field) for field in schemas[name]["required"]}
        assert required <= set(fields), name
    assert job.id in {one.id for one in daemon.client().jobs()}
