"""What the provider grants: operators set it, and tenants see their own."""

from __future__ import annotations

import os
import signal
import typing

import pytest

import harmonaize
from daemons import BUILD, PROGRAMS, Daemon, daemon_in_folder, eventually, job_at


@pytest.fixture(scope="module")
def other_daemon() -> typing.Iterator[Daemon]:
    """A daemon whose policy these tests change."""
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip(f"there is no daemon in {BUILD}")
    with daemon_in_folder("[policy]\nmost_priority = 1\nchanges_per_minute = 6000\n") as one:
        yield one


def test_by_default_nothing_is_given_that_others_would_lack(daemon: Daemon) -> None:
    assert daemon.client().policy().policy == harmonaize.TenantPolicy(
        most_priority=0,
        most_bandwidth_floor="0 B/s",
        most_bandwidth_cap="0 B/s",
        most_elastic_ranks=0,
        most_processors=0,
        spinning=False,
        compression=True,
        least_late_after="100 ms",
        least_checkpoint_interval="10 s",
        changes_per_minute=12,
        defaults={},
        tenant=None,
        exists=None,
        raw={},
    )


def test_an_operator_sets_the_policy_and_a_tenant_sees_its_own(other_daemon: Daemon) -> None:
    client, operator = other_daemon.client(), other_daemon.operator()
    policy = operator.set_policy(
        f"""
        [policy]
        most_bandwidth_floor = "1 GB/s"
        changes_per_minute = 6000
        defaults.faults.late_after = "20 s"

        [[policy.tenant]]
        tenant = "{os.geteuid()}"
        most_priority = 2
        [[policy.tenant]]
        tenant = "nobody of this name"
        spinning = true
        """
    )
    assert policy == operator.policy()
    assert hash(policy) == hash(operator.policy())
    assert (policy.policy.most_priority, policy.policy.most_bandwidth_floor) == (0, "1 GB/s")
    assert [(one.tenant, one.exists, one.most_priority, one.spinning) for one in policy.tenants] == [
        (str(os.geteuid()), True, 2, False),
        ("nobody of this name", False, 0, True),
    ]
    assert policy.text is not None
    assert operator.set_policy(policy.text) == policy
    mine = client.policy()
    assert (mine.policy.most_priority, mine.policy.defaults) == (2, {"faults.late_after": "20 s"})
    assert (mine.policy.tenant, mine.tenants, mine.text) == (None, (), None)


def test_jobs_that_run_are_granted_by_the_new_policy(other_daemon: Daemon) -> None:
    client, operator = other_daemon.client(), other_daemon.operator()
    operator.set_policy({"policy": {"most_priority": 1}})
    with job_at(other_daemon, "granted"):
        assert client.set_requirements("granted", "collectives.priority = 3").values["collectives.priority"] == 1
        operator.set_policy({"policy": {"most_priority": 2, "defaults": {"job": {"kind": "batch"}}}})
        granted = client.granted("granted")
        assert granted.values == {"collectives.priority": 2, "job.kind": "batch"}
        assert [one.granted for one in granted.shortfalls] == ["2"]
        # On SIGHUP the configuration holds again.
        other_daemon.process.send_signal(signal.SIGHUP)
        eventually("the configuration holds", lambda: operator.policy().policy.most_priority == 1)
        assert client.granted("granted").values == {"collectives.priority": 1}


def test_too_many_changes_are_refused_for_a_while(other_daemon: Daemon) -> None:
    client, operator = other_daemon.client(), other_daemon.operator()
    with job_at(other_daemon, "restless") as restless, job_at(other_daemon, "calm"):
        operator.set_policy({"policy": {"changes_per_minute": 2}})
        for seconds in (10, 11):
            client.set_requirements("restless", {"faults.late_after": f"{seconds} s"})
        with pytest.raises(harmonaize.ProblemError, match=r"change too often.*try again in") as caught:
            client.set_requirements("restless", {"faults.late_after": "12 s"})
        assert caught.value.status == 429
        with pytest.raises(harmonaize.ProblemError, match="change too often"):
            client.forget_requirements(restless.id)
        assert client.granted("restless").values["faults.late_after"] == "11 s"
        # What changes nothing is no change, and another job has changes of its own.
        client.set_requirements("restless", {"faults.late_after": "11 s"})
        client.set_requirements("calm", {"faults.late_after": "12 s"})
        operator.set_policy({"policy": {"changes_per_minute": 0}})
        with pytest.raises(harmonaize.ProblemError, match="allows no changes") as caught:
            client.set_requirements("calm", {"faults.late_after": "13 s"})
        assert caught.value.status == 409


def test_a_policy_with_a_mistake_changes_nothing(other_daemon: Daemon) -> None:
    operator = other_daemon.operator()
    before = operator.policy()
    for document, says in (
        ("[policy]\nmost_priorty = 1", r"policy:2:1: unknown key.*did you mean 'policy\.most_priority'"),
        ("[policy]\nmost_priority = 4", "policy:2:17: .*from 0 to 3"),
        ({"policy": {"tenant": [{"most_priority": 1}]}}, "needs 'tenant', a user's name or number"),
    ):
        with pytest.raises(harmonaize.ProblemError, match=says) as caught:
            operator.set_policy(document)
        assert caught.value.status == 400
    assert operator.policy() == before


def test_a_tenant_sets_no_policy(other_daemon: Daemon) -> None:
    with pytest.raises(harmonaize.ProblemError) as caught:
        other_daemon.client().set_policy("policy.most_priority = 3")
    assert caught.value.status == 405
