"""Tickets, by which new processes join a job that runs."""

from __future__ import annotations

import datetime
import json

import pytest

import harmonaize
from daemons import Daemon, Job


def test_a_ticket_is_made_listed_and_burnt(daemon: Daemon, job: Job) -> None:
    client = daemon.client()
    made = client.make_ticket(job.name, uses=3, seconds=600)
    assert made.ticket.startswith("hzt1_")
    assert made.ticket not in repr(made)
    assert made.uses == 3
    left = made.expires - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(0) < left <= datetime.timedelta(seconds=601)
    listed = client.tickets(job.id)
    assert [(one.id, one.uses) for one in listed.tickets] == [(made.id, 3)]
    assert (listed.more, listed.waiting) == (0, 0)
    assert made.ticket not in json.dumps(dict(listed.raw))
    assert client.burn_tickets(job.name).tickets == ()
    assert client.tickets(job.name).tickets == ()


def test_an_operator_lists_and_burns_but_makes_none(daemon: Daemon, job: Job) -> None:
    made = daemon.client().make_ticket(job.id)
    operator = daemon.operator()
    with pytest.raises(harmonaize.ProblemError) as refused:
        operator.make_ticket(job.id)
    assert refused.value.status == 403
    everything = json.dumps(operator.call("GET", "/v1/tickets"))
    assert made.id in everything
    assert job.id in everything
    assert made.ticket not in everything
    assert operator.burn_tickets(job.id).tickets == ()
    with pytest.raises(harmonaize.ProblemError) as hidden:
        daemon.client().call("GET", "/v1/tickets")
    assert hidden.value.status == 404


@pytest.mark.parametrize("order", [{"uses": 0}, {"uses": 1.5}, {"seconds": 0}, {"seconds": 1e9}, {"use": 1}])
def test_orders_that_make_no_sense_are_refused(daemon: Daemon, job: Job, order: dict[str, float]) -> None:
    with pytest.raises(harmonaize.ProblemError) as refused:
        daemon.client().call("POST", f"/v1/jobs/{job.id}/tickets", order)
    assert refused.value.status == 400


def test_a_job_that_does_not_exist_has_no_tickets(daemon: Daemon) -> None:
    for call in (daemon.client().make_ticket, daemon.client().tickets, daemon.client().burn_tickets):
        with pytest.raises(harmonaize.ProblemError) as refused:
            call("no such job")
        assert refused.value.status == 404
