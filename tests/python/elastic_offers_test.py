"""A training answers the provider's offers, and its ranks come and leave as was agreed on."""

from __future__ import annotations

import pathlib
import typing

import pytest

import harmonaize
from daemons import HERE, Daemon, eventually
from elastic_jobs import ElasticJob, elastic_job, expect_right, expect_steps_in_order

pytest.importorskip("numpy", reason="NumPy is not installed: pip install numpy, or Debian's python3-numpy")

RANK = str(HERE / "elastic_rank.py")


def await_state(daemon: Daemon, offer: harmonaize.Offer, state: str) -> harmonaize.Offer:
    """Waits until an offer is in this state, and returns it."""

    def found() -> harmonaize.Offer | None:
        now = daemon.operator().offer(offer)
        if now.ended and now.state != state:
            raise AssertionError(f"the offer is {now.state}: {now.reason}")
        return now if now.state == state else None

    return eventually(f"{offer.id} is {state}", found)


def reclaim(daemon: Daemon, job: str, **order: typing.Any) -> harmonaize.Offer:
    """Asks for ranks back."""
    return daemon.operator().make_offer(job, "reclaim", within_seconds=600, **order)


def expect_right_without(job: ElasticJob, gone: int, places: list[int]) -> None:
    """One process has left in order, and the others have lost nothing of the state."""
    assert job.ends(gone).startswith("end None True step")
    job.await_world(places[0], len(places))
    job.await_steps(*places)
    expect_right(job, places, stopper=places[-1])
    for place in places:
        expect_steps_in_order(job, place, changes=0)


def test_the_rank_that_a_reclaim_names_leaves(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "offers-named", 4) as job:
        job.await_steps(0, 1, 2, 3)
        offer = reclaim(daemon, "offers-named", which=[1])
        await_state(daemon, offer, "fulfilled")
        expect_right_without(job, 1, [0, 2, 3])


def test_of_ranks_that_are_not_named_as_many_leave_as_are_asked_for(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "offers-unnamed", 4) as job:
        job.await_steps(0, 1, 2, 3)
        offer = reclaim(daemon, "offers-unnamed", ranks=1)
        await_state(daemon, offer, "fulfilled")
        expect_right_without(job, 3, [0, 1, 2])


def test_rank_0_may_be_the_one_that_leaves(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "offers-zero", 3) as job:
        job.await_steps(0, 1, 2)
        await_state(daemon, reclaim(daemon, "offers-zero", which=[0]), "fulfilled")
        assert job.ends(0).startswith("end None True step")
        job.await_world(1, 2)
        # Another rank is the first now, and answers.
        await_state(daemon, reclaim(daemon, "offers-zero", which=[0]), "fulfilled")
        expect_right_without(job, 1, [2])


def test_newcomers_take_places_that_were_accepted(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "offers-grow", 2) as job:
        job.await_steps(0, 1)
        offer = daemon.operator().make_offer("offers-grow", "grow", ranks=1, within_seconds=600)
        await_state(daemon, offer, "accepted")
        job.order(1, "ticket")
        assert job.add(job.await_line(1, "ticket ").split()[1]) == 2
        await_state(daemon, offer, "fulfilled")
        job.await_world(0, 3)
        job.await_steps(0, 1, 2)
        expect_right(job, [0, 1, 2], stopper=2)


def test_what_exceeds_the_bounds_is_countered_or_declined(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "offers-bounds", 3, [RANK, "--least", "2", "--most", "4"]) as job:
        job.await_steps(0, 1, 2)
        operator = daemon.operator()
        grow = operator.make_offer("offers-bounds", "grow", ranks=3, within_seconds=600)
        countered = await_state(daemon, grow, "countered")
        assert countered.counter is not None
        assert countered.counter.ranks == 1
        # The provider keeps to what does not fit.
        operator.keep_offer(grow)
        assert "bounds" in await_state(daemon, grow, "declined").reason
        taken = reclaim(daemon, "offers-bounds", ranks=2)
        await_state(daemon, taken, "countered")
        operator.take_offer(taken)
        await_state(daemon, taken, "fulfilled")
        assert job.ends(2).startswith("end None True step")
        job.await_world(0, 2)
        await_state(daemon, reclaim(daemon, "offers-bounds", ranks=1), "declined")
        slower = operator.make_offer("offers-bounds", "slow_down", bytes_per_second=1e9, within_seconds=600)
        await_state(daemon, slower, "accepted")
        operator.withdraw_offer(slower)
        job.await_steps(0, 1)
        expect_right(job, [0, 1], stopper=1)


def test_the_programs_own_answers_are_given(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "offers-asked", 3, [RANK, "--asked"]) as job:
        job.await_steps(0, 1, 2)
        forced = reclaim(daemon, "offers-asked", which=[1], can_be_refused=False)
        # It cannot be declined: the training goes on, and may answer otherwise once it has changed.
        job.order(0, "decline")
        job.await_line(0, "answers reclaim 1 of 3")
        assert daemon.operator().offer(forced).state == "offered"
        assert daemon.operator().propose_offer(forced, which=[0]).terms.which == (0,)
        job.order(0, "counter 2")
        job.await_line(0, "answers reclaim 0 of 3")
        # As many ranks of the same host are taken without a word.
        await_state(daemon, forced, "fulfilled")
        assert job.ends(2).startswith("end None True step")
        grow = daemon.operator().make_offer("offers-asked", "grow", ranks=1, within_seconds=600)
        job.order(0, "decline")
        assert await_state(daemon, grow, "declined").reason == "not now"
        with pytest.raises(harmonaize.ProblemError, match="does not want to be asked"):
            daemon.operator().make_offer("offers-asked", "grow", ranks=1, within_seconds=600)
        job.await_world(0, 2)
        expect_right(job, [0, 1], stopper=0)


def test_the_processes_that_were_meant_leave_although_their_numbers_have_changed(
    daemon: Daemon, tmp_path: pathlib.Path
) -> None:
    with elastic_job(daemon, tmp_path, "offers-moved", 5, [RANK, "--asked"]) as job:
        job.await_steps(0, 1, 2, 3, 4)
        offer = reclaim(daemon, "offers-moved", which=[2, 3])
        job.kill(1)
        job.await_world(0, 4)
        eventually("the ranks have new numbers", lambda: daemon.operator().offer(offer).terms.which == (1, 2))
        job.order(0, "accept")
        await_state(daemon, offer, "fulfilled")
        assert job.await_line(0, "answers ") == "answers reclaim 1 2 of 4"
        expect_two_left(job)


def test_a_rank_is_killed_while_others_leave(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    with elastic_job(daemon, tmp_path, "offers-killed", 5) as job:
        job.await_steps(0, 1, 2, 3, 4)
        offer = reclaim(daemon, "offers-killed", which=[2, 3])
        job.kill(1)
        await_state(daemon, offer, "fulfilled")
        expect_two_left(job)


def expect_two_left(job: ElasticJob) -> None:
    """Processes 2 and 3 have left in order, and 0 and 4 go on without them and process 1."""
    for place in (2, 3):
        assert job.ends(place).startswith("end None True step")
    job.await_world(0, 2)
    job.await_steps(0, 4)
    expect_right(job, [0, 4], stopper=4)
