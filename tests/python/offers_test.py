"""Offers to jobs that run, and the answers."""

from __future__ import annotations

import datetime

import pytest

import harmonaize
from daemons import Daemon, Job


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


def test_an_offer_is_declined_once_and_for_a_while(daemon: Daemon, job: Job) -> None:
    client, operator = daemon.client(), daemon.operator()
    made = operator.make_offer(job.name, "reclaim", which=[1], within_seconds=600)
    assert client.decline_offer(made, not_again=3600, reason="not now").state == "declined"
    with pytest.raises(harmonaize.ProblemError, match="declined already") as refused:
        client.accept_offer(made)
    assert refused.value.status == 409
    with pytest.raises(harmonaize.ProblemError, match="does not want to be asked"):
        operator.make_offer(job.name, "reclaim", which=[1], within_seconds=600)


def test_tenants_make_no_offers_and_see_none_that_do_not_exist(daemon: Daemon, job: Job) -> None:
    client = daemon.client()
    with pytest.raises(harmonaize.ProblemError) as refused:
        client.make_offer(job.name, "grow", within_seconds=600)
    assert refused.value.status == 405
    with pytest.raises(harmonaize.ProblemError) as hidden:
        client.offer("offer-0123456789abcdef")
    assert hidden.value.status == 404
