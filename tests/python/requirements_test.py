"""What is said of a job, what it is granted, and how far it says that it has come."""

from __future__ import annotations

import datetime
import math
import time
import typing

import pytest

import harmonaize
from daemons import BUILD, PROGRAMS, Daemon, Job, daemon_in_folder, eventually, job_at


@pytest.fixture(scope="module")
def strict_daemon() -> typing.Iterator[Daemon]:
    """A daemon whose policy grants little, and allows many changes."""
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip(f"there is no daemon in {BUILD}")
    policy = 'most_priority = 1\nmost_bandwidth_cap = "4 GB/s"\ncompression = false\nchanges_per_minute = 6000\n'
    with daemon_in_folder(f"[policy]\n{policy}") as one:
        yield one


@pytest.fixture
def scarce_daemon(strict_daemon: Daemon) -> typing.Iterator[Daemon]:
    """A daemon that gives each tenant little of its memory."""
    assert strict_daemon.socket.exists()
    with daemon_in_folder("[quota]\nmemory_bytes = 800_000\n") as one:
        yield one


@pytest.fixture(scope="module")
def running(strict_daemon: Daemon) -> typing.Iterator[Job]:
    """A job at that daemon."""
    with job_at(strict_daemon, "asks") as one:
        yield one


@pytest.fixture
def client(strict_daemon: Daemon, running: Job) -> typing.Iterator[harmonaize.Client]:
    """A client of that daemon. What a test says of the job is forgotten behind it."""
    one = strict_daemon.client()
    yield one
    one.forget_requirements(running.id)


def test_a_job_that_says_nothing_is_granted_what_the_policy_adds(client: harmonaize.Client, running: Job) -> None:
    stated, granted = client.requirements("asks"), client.granted("asks")
    assert (stated.job, stated.name, stated.text) == (running.id, "asks", "")
    assert (stated.values, stated.overrides, stated.launches) == ({}, (), ())
    assert granted.values == {"collectives.bandwidth_cap": "4 GB/s"}
    assert granted.shortfalls == ()
    assert hash(granted) == hash(client.granted(running.id))


def test_what_is_granted_less_than_asked_is_a_shortfall(client: harmonaize.Client) -> None:
    granted = client.set_requirements(
        "asks",
        """
        [job]
        kind = "training"
        [collectives]
        priority = 3
        bandwidth_floor = "2 GB/s"
        objective = "throughput"
        """,
    )
    assert granted.values == {
        "job.kind": "training",
        "collectives.priority": 1,
        "collectives.bandwidth_cap": "4 GB/s",
        "collectives.objective": "throughput",
    }
    priority, floor, kind = granted.shortfalls
    assert (priority.key, priority.asked, priority.granted) == ("collectives.priority", "3", "1")
    assert "a priority of 1 at most" in priority.why
    assert (floor.key, floor.asked, floor.granted) == ("collectives.bandwidth_floor", '"2 GB/s"', None)
    # The job began without a kind, and keeps that.
    assert (kind.key, kind.asked, kind.granted) == ("job.kind", '"training"', '"unknown"')
    assert client.granted("asks") == granted
    stated = client.requirements("asks")
    assert stated.values["collectives.priority"] == 3
    assert stated.values["collectives.bandwidth_floor"] == "2 GB/s"
    # The documents say the same as the values.
    client.forget_requirements("asks")
    assert client.set_requirements("asks", stated.text).values == granted.values


def test_a_later_statement_replaces_an_earlier_one_key_by_key(client: harmonaize.Client) -> None:
    first = client.set_requirements("asks", {"faults": {"late_after": "9 s"}, "collectives": {"inline": False}})
    second = client.set_requirements("asks", {"faults.late_after": "7 s"})
    assert second.values["faults.late_after"] == "7 s"
    assert second.values["collectives.inline"] is False
    assert second.changes == first.changes + 1
    # What changes nothing counts as no change.
    assert client.set_requirements("asks", {"faults.late_after": "7 s"}).changes == second.changes
    forgotten = client.forget_requirements("asks")
    assert forgotten.values == {"collectives.bandwidth_cap": "4 GB/s"}
    assert client.requirements("asks").text == ""


def test_a_mapping_has_tables_and_overrides(client: harmonaize.Client) -> None:
    deadline = datetime.datetime(2027, 1, 31, 18, 30, tzinfo=datetime.UTC)
    client.set_requirements(
        "asks",
        {
            "job": {"deadline": deadline, "signature": 'a "quoted" \\ text'},
            "adapt": {"batch_size": [8, 64]},
            "collectives": {
                "deadline_us": 300,
                "compression": {"allow": ["bf16", "fp8"], "error_bound": 0.01},
                "override": [
                    {"communicator": "tp*", "objective": "latency", "priority": 2},
                    {"collective": "AllReduce", "sizes": ["1 KiB", "1 MiB"], "deadline_us": 50},
                ],
            },
            "market": {"launch": [{"cluster": "north", "hardware": "cpu", "price": 0.5}]},
        },
    )
    stated = client.requirements("asks")
    assert stated.values == {
        "job.deadline": "2027-01-31T18:30:00.000000Z",
        "job.signature": 'a "quoted" \\ text',
        "adapt.batch_size": [8, 64],
        "collectives.deadline_us": 300,
        "collectives.compression.allow": ["bf16", "fp8"],
        "collectives.compression.error_bound": 0.01,
    }
    assert stated.overrides == (
        {"communicator": "tp*", "objective": "latency", "priority": 2},
        {"collective": "AllReduce", "sizes": ["1 KiB", "1 MiB"], "deadline_us": 50},
    )
    assert stated.launches == ({"cluster": "north", "hardware": "cpu", "price": 0.5},)
    granted = client.granted("asks")
    assert granted.overrides[0]["priority"] == 1
    assert {one.key for one in granted.shortfalls} == {
        "collectives.compression.allow",
        "collectives.override[0].objective",
        "collectives.override[0].priority",
    }
    # Overrides are a list: a later one replaces it.
    client.set_requirements("asks", {"collectives": {"override": [{"communicator": "pp*", "inline": False}]}})
    assert client.requirements("asks").overrides == ({"communicator": "pp*", "inline": False},)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("[faults]\n\nlate_afte = '9 s'\n", r"requirements:3:1: unknown key.*did you mean 'faults\.late_after'"),
        ("[faults]\nlate_after = 9\n", r"requirements:2:14: 'faults\.late_after'"),
        ("[faults\n", "requirements:1:"),
        ({"faults": {"give_up_after": "1 h"}, "collectives": {"objective": "speed"}}, "requirements:2:25: .*objective"),
        ({"collectives": {"override": [{"communicator": "tp*", "priority": 9}]}}, r"override\[0\]\.priority'"),
        ("a = " + "[" * 20 + "]" * 20, "more than 16 deep"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_changes_nothing(
    client: harmonaize.Client, document: str | dict[str, typing.Any], says: str
) -> None:
    before = client.granted("asks")
    for state in (lambda: client.set_requirements("asks", document), lambda: client.check_requirements(document)):
        with pytest.raises(harmonaize.ProblemError, match=says) as caught:
            state()
        assert caught.value.status == 400
    assert client.granted("asks") == before


def test_a_mapping_that_is_no_document_is_not_sent(client: harmonaize.Client) -> None:
    with pytest.raises(ValueError, match=r"job\.name.*leave the key out"):
        client.set_requirements("asks", {"job": {"name": None}})
    with pytest.raises(ValueError, match="surrogates not allowed"):
        client.set_requirements("asks", "# \ud800")


def test_a_document_that_is_too_long_is_refused(client: harmonaize.Client) -> None:
    with pytest.raises(harmonaize.ProblemError) as caught:
        client.set_requirements("asks", "#" * 70_000)
    assert caught.value.status == 413


def test_what_exceeds_the_tenants_memory_is_refused(scarce_daemon: Daemon) -> None:
    # A rank takes some 630 kB of the daemon's memory, and these lists 230 kB: 8 bytes for each of their text.
    name = "x" * 120
    lists = {
        "collectives.override": [{"communicator": f"{number}-{name}", "deadline_us": 300} for number in range(64)],
        "market.launch": [{"cluster": f"{number}-{name}", "hardware": name, "price": 0.5} for number in range(64)],
    }
    client = scarce_daemon.client()
    with job_at(scarce_daemon, "large", size=1):
        with pytest.raises(harmonaize.ProblemError, match="would exceed the provider's quota") as caught:
            client.set_requirements("large", lists)
        assert caught.value.status == 409
        assert client.granted("large").text == ""
        assert client.set_requirements("large", "job.kind = 'batch'").values == {"job.kind": "batch"}


def test_a_check_says_what_would_be_granted(client: harmonaize.Client) -> None:
    before = client.granted("asks")
    would = client.check_requirements({"collectives": {"priority": 2, "bandwidth_cap": "8 GB/s"}})
    assert would.values == {"collectives.priority": 1, "collectives.bandwidth_cap": "4 GB/s"}
    assert [(one.key, one.granted) for one in would.shortfalls] == [
        ("collectives.priority", "1"),
        ("collectives.bandwidth_cap", '"4 GB/s"'),
    ]
    assert (would.overrides, would.launches) == ((), ())
    assert "priority = 1" in would.text
    assert client.granted("asks") == before


def test_an_operator_sees_and_sets_a_tenants_requirements(
    client: harmonaize.Client, strict_daemon: Daemon, running: Job
) -> None:
    operator = strict_daemon.operator()
    assert operator.set_requirements(running.id, "job.kind = 'batch'") == client.granted("asks")
    assert operator.requirements(running.id).values == {"job.kind": "batch"}


def test_progress_is_reported_and_steps_are_timed(client: harmonaize.Client, running: Job) -> None:
    nothing = client.progress("asks")
    assert (nothing.job, nothing.name) == (running.id, "asks")
    assert [nothing.step, nothing.samples, nothing.loss, nothing.accuracy, nothing.step_seconds] == [None] * 5
    began = time.monotonic()
    for step in range(1, 5):
        told = client.report_progress("asks", step * 10, samples=64 * step, loss=2.5)
        assert (told.step, told.samples, told.loss, told.accuracy) == (step * 10, 64.0 * step, 2.5, None)
        assert (told.step_seconds is None) == (step < 3)
        # A step that another rank has told of says nothing new.
        assert client.report_progress("asks", step * 10, accuracy=0.5).accuracy is None
        time.sleep(0.05)
    progress = client.progress(running.id)
    assert progress == told
    assert progress.step_seconds is not None
    assert 0.005 <= progress.step_seconds <= (time.monotonic() - began) / 20
    # The job went back to a checkpoint, and its steps are timed anew.
    back = client.report_progress("asks", 20, accuracy=0.25)
    assert (back.step, back.loss, back.accuracy, back.step_seconds) == (20, None, 0.25, None)
    # The loss of a job that diverges is no mistake of its report.
    assert client.report_progress("asks", 30, loss=math.nan, accuracy=math.inf).loss is None


def test_progress_tells_with_which_values_a_job_trains(client: harmonaize.Client, running: Job) -> None:
    settings = {
        "batch_size": 512.0,
        "accumulation": 4.0,
        "synchronisation_interval": 1.0,
        "learning_rate_factor": 0.5,
        "gradient_noise_scale": 1000.0,
        "samples_in_all": 1e6,
    }
    for step in range(100, 106):
        told = client.report_progress(running.id, step, **settings)
        assert {name: getattr(told, name) for name in settings} == settings
    # No operation was under way, so there is nothing to advise.
    assert told.exchange_seconds == 0
    with pytest.raises(harmonaize.ProblemError, match="accumulation") as caught:
        client.report_progress(running.id, 106, accumulation=0)
    assert caught.value.status == 400


def test_progress_that_makes_no_sense_is_refused(client: harmonaize.Client) -> None:
    before = client.progress("asks")
    for step, accuracy in ((-1, None), (2**60, None), (50, 1.5)):
        with pytest.raises(harmonaize.ProblemError) as caught:
            client.report_progress("asks", step, accuracy=accuracy)
        assert caught.value.status == 400
    with pytest.raises(harmonaize.ProblemError, match="whole number"):
        client.call("POST", "/v1/jobs/asks/progress", body={"step": 50.5})
    assert client.progress("asks") == before


def test_a_job_that_is_not_there_has_no_requirements(client: harmonaize.Client) -> None:
    for ask in (
        client.requirements,
        client.granted,
        client.progress,
        client.forget_requirements,
        lambda job: client.set_requirements(job, ""),
        lambda job: client.report_progress(job, 1),
    ):
        with pytest.raises(harmonaize.ProblemError, match="no such job") as caught:
            ask("nobody's")
        assert caught.value.status == 404


def test_what_was_said_ends_with_the_job(strict_daemon: Daemon) -> None:
    client = strict_daemon.client()
    with job_at(strict_daemon, "short") as job:
        assert client.set_requirements("short", "job.kind = 'batch'").values["job.kind"] == "batch"
        job.end()

        def refused() -> str:
            try:
                client.set_requirements(job.id, "job.kind = 'training'")
            except harmonaize.ProblemError as problem:
                return f"{problem.status} {problem.detail}"
            return ""

        said = eventually("the daemon has noticed that the ranks are gone", refused)
        assert said.startswith("409 job 'short' has no communicator and no agent on this host")
    assert client.requirements(job.id).text == ""
