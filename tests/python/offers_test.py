"""Offers to jobs that run, and the answers."""

from __future__ import annotations

import datetime

import pytest

import harmonaize
from daemons import Daemon, Job, job_at


def test_an_offer_is_made_countered_and_taken(daemon: Daemon, job: Job) -> None:
    client, operator = daemon.client(), daemon.operator()
    made = operator.make_offer(job.name, "grow", ranks=4, within_seconds=600, purpose="free places")
    (seen,) = client.offers(job.name, state="open")
    assert (seen.id, seen.kind, seen.state) == (made.id, "grow", "offered")
    assert (seen.terms.ranks, seen.purpose) == (4, "free places")
    assert seen.deadline is not None
    assert seen.deadline > datetime.datetime.now(datetime.UTC)
    countered = client.counter_offer(seen, ranks=2, reason="two are enough")
    assert countered.state == "countered"
    assert countered.counter is not None
    assert countered.counter.ranks == 2
    assert operator.keep_offer(made).state == "offered"
    assert operator.propose_offer(made, ranks=3).terms.ranks == 3
    client.counter_offer(made.id, ranks=1)
    taken = operator.take_offer(made)
    assert (taken.state, taken.terms.ranks, taken.ended) == ("accepted", 1, False)
    assert client.accept_offer(made) == client.offer(made)
    broken = operator.withdraw_offer(made, reason="a host has failed")
    assert (broken.state, broken.broken_by, broken.ended) == ("broken", "provider", True)
    assert client.offers(job.name, state="open") == ()


def test_terms_are_said_in_pythons_types(daemon: Daemon, job: Job) -> None:
    client, operator = daemon.client(), daemon.operator()
    # The daemon keeps whole seconds.
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    deadline, due = now + datetime.timedelta(minutes=10), now + datetime.timedelta(hours=1)
    made = operator.make_offer(
        job.name, "slow_down", bytes_per_second=1e9, deadline=deadline, due=due, price=0.5, urgency="high"
    )
    assert (made.deadline, made.terms.due, made.terms.bytes_per_second) == (deadline, due, 1e9)
    assert (made.terms.price, made.raw["urgency"]) == (0.5, "high")
    elsewhere = datetime.timezone(datetime.timedelta(hours=5))
    countered = client.counter_offer(made, due=(now + datetime.timedelta(hours=2)).astimezone(elsewhere))
    assert countered.counter is not None
    assert countered.counter.due == now + datetime.timedelta(hours=2)
    proposed = operator.propose_offer(made, deadline=now + datetime.timedelta(minutes=20), reason="soon")
    assert (proposed.deadline, proposed.terms.due) == (now + datetime.timedelta(minutes=20), due)
    assert (proposed.reason, proposed.counter, proposed.round) == ("soon", None, 1)
    naive = datetime.datetime(2099, 1, 1)  # noqa: DTZ001
    with pytest.raises(ValueError, match="time zone"):
        client.counter_offer(made, due=naive)
    with pytest.raises(ValueError, match="time zone"):
        operator.make_offer(job.name, "grow", deadline=naive)
    assert operator.withdraw_offer(made).state == "withdrawn"


def test_ranks_are_named_by_any_sequence(daemon: Daemon, job: Job) -> None:
    client, operator = daemon.client(), daemon.operator()
    made = operator.make_offer(job.name, "move", which=range(2), within_seconds=600, can_be_refused=False)
    assert (made.terms.which, made.terms.ranks, made.can_be_refused) == ((0, 1), 2, False)
    with pytest.raises(harmonaize.ProblemError, match="cannot be refused") as refused:
        client.decline_offer(made)
    assert refused.value.status == 409
    with pytest.raises(harmonaize.ProblemError, match="rank 7") as absent:
        client.counter_offer(made, which=(7,))
    assert absent.value.status == 400
    countered = client.counter_offer(made, which=(1,)).counter
    assert countered is not None
    assert countered.which == (1,)
    assert operator.withdraw_offer(made, reason="not needed").reason == "not needed"


def test_what_was_offered_is_found_by_job_and_state(daemon: Daemon, job: Job) -> None:
    client, operator = daemon.client(), daemon.operator()
    made = operator.make_offer(job.id, "grow", within_seconds=600)
    for name in (None, job.id, job.name):
        assert [one.id for one in client.offers(name, state="open")] == [made.id]
    assert client.offers("none") == ()
    assert made.id in [one.id for one in operator.offers(state="offered")]
    with pytest.raises(harmonaize.ProblemError, match="'state' is one of open, offered, ") as refused:
        client.offers(state="opn")
    assert refused.value.status == 400
    operator.withdraw_offer(made)
    assert client.offers(job.name)[0] == client.offer(made.id[:14])


def test_an_offer_is_declined_once_and_for_a_while(daemon: Daemon) -> None:
    client, operator = daemon.client(), daemon.operator()
    with job_at(daemon, "quiet") as job:
        made = operator.make_offer(job.name, "reclaim", which=[1], within_seconds=600)
        assert client.decline_offer(made, not_again=3600, reason="not now").state == "declined"
        with pytest.raises(harmonaize.ProblemError, match="declined already") as refused:
            client.accept_offer(made)
        assert refused.value.status == 409
        with pytest.raises(harmonaize.ProblemError, match="does not want to be asked"):
            operator.make_offer(job.name, "reclaim", which=[1], within_seconds=600)
        insisted = operator.make_offer(job.name, "reclaim", which=[1], within_seconds=600, insist=True)
        assert insisted.state == "offered"


def test_tenants_make_no_offers_and_see_none_that_do_not_exist(daemon: Daemon, job: Job) -> None:
    client = daemon.client()
    with pytest.raises(harmonaize.ProblemError) as refused:
        client.make_offer(job.name, "grow", within_seconds=600)
    assert refused.value.status == 405
    with pytest.raises(harmonaize.ProblemError) as hidden:
        client.offer("offer-0123456789abcdef")
    assert hidden.value.status == 404
