"""What a training answers to offers by its bounds."""

from __future__ import annotations

import datetime

import pytest

from harmonaize.documents import Fields
from harmonaize.elastic import Accept, Answer, Counter, Decline, World
from harmonaize.elastic.answers import Bounds, Sizes
from harmonaize.elastic.requests import is_near
from harmonaize.offers import Offer


def offer(kind: str, ranks: int, *, used: int = 0, can_be_refused: bool = True) -> Offer:
    """An offer as a daemon tells it."""
    document = {
        "id": "offer-0123456789abcdef",
        "revision": 1,
        "job": "1",
        "kind": kind,
        "state": "offered",
        "ranks": ranks,
        "which": [],
        "round": used,
        "most_rounds": 4,
        "can_be_refused": can_be_refused,
    }
    return Offer.from_fields(Fields(document, "an offer"))


FEWER = Counter(ranks=2, reason="more do not fit the job's bounds")
NONE = Decline("it does not fit the job's bounds")


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (offer("grow", 2), Accept()),
        (offer("grow", 3), FEWER),
        (offer("grow", 3, used=1), NONE),
        (offer("reclaim", 2), Accept()),
        (offer("reclaim", 3), FEWER),
        (offer("reclaim", 3, used=1), NONE),
        (offer("reclaim", 3, can_be_refused=False), FEWER),
        (offer("reclaim", 3, used=1, can_be_refused=False), None),
        (offer("move", 3), FEWER),
        (offer("slow_down", 0), Accept()),
    ],
)
def test_what_fits_is_accepted_and_fewer_are_asked_for(asked: Offer, answer: Answer | None) -> None:
    world = World(rank=0, size=6, epoch=1, first_size=6, one_host=True)
    assert Bounds(4, 8).answer(asked, Sizes.of(world, [])) == answer


def test_ranks_leave_shortly_before_it_is_due() -> None:
    now = datetime.datetime.now(datetime.UTC)
    assert is_near(now + datetime.timedelta(seconds=50), 60)
    assert is_near(now - datetime.timedelta(seconds=50), 60)
    assert not is_near(now + datetime.timedelta(seconds=70), 60)
    assert is_near(None, 60), "it has to be at once for all that is known"


def test_what_was_agreed_on_counts() -> None:
    world = World(rank=0, size=6, epoch=1, first_size=6, one_host=True)
    sizes = Sizes.of(world, [offer("grow", 2), offer("reclaim", 1), offer("move", 1), offer("slow_down", 0)])
    assert sizes == Sizes(fewest=4, most=8)
    assert Bounds(4, 8).answer(offer("grow", 1), sizes) == NONE
    assert Bounds(4, 8).answer(offer("reclaim", 1), sizes) == NONE
    assert Bounds(1, None).answer(offer("grow", 500), sizes) == Accept()
