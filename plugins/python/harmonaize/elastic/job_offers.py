"""The offers to a job that have not ended: rank 0 reads and answers them."""

from __future__ import annotations

import logging
import time
import typing

import harmonaize
from harmonaize.elastic.answers import Answer, Bounds, Sizes, give
from harmonaize.elastic.requests import Leave, is_near
from harmonaize.elastic.world import World
from harmonaize.offers import Offer

# Seconds after which offers are read again without news of them: while no events come from a daemon, they are found so.
_READ_SECONDS = 5.0
# Seconds between news and another reading: news of another host may come before the copy of its offer does.
_READ_AGAIN_SECONDS = 0.5
# Seconds until a daemon is asked again that did not answer, or was asked too often.
_PAUSE_SECONDS = 1.0
# Most seconds that one question may take: longer than the five for which a daemon waits for another host's answer.
_CALL_SECONDS = 8.0
# Statuses of an answer that may be given again as it is: too many answers, and a host that does not reply.
_AGAIN_STATUSES = (429, 503)

_log = logging.getLogger("harmonaize.elastic")

AnswerFunction = typing.Callable[[Offer, World], Answer | None]


class JobOffers:
    """Answers the offers to a job once each time that they have changed, and knows what was agreed on."""

    def __init__(self, job: str | None, bounds: Bounds, answer: AnswerFunction | None) -> None:
        """Takes the job's name, None: there are no offers; and what answers, None: the bounds alone."""
        self._job = job
        self._bounds = bounds
        self._answer_function = answer
        self._known: dict[str, Offer] = {}
        self._answered: dict[str, int] = {}  # Revision by Offer.id.
        self._read_at = 0.0
        self._answer_at = 0.0

    def look(self, world: World, *, news: bool) -> None:
        """Reads the offers if there may be others, and answers those that are open. It waits for the daemon alone."""
        if self._job is None:
            return
        now = time.monotonic()
        try:
            if news or now >= self._read_at:
                self._read_at = now + _PAUSE_SECONDS
                self._read(self._job)
                self._read_at = now + (_READ_AGAIN_SECONDS if news else _READ_SECONDS)
            self._answer_all(world)
        except harmonaize.HarmonaizeError as error:
            _log.debug("offers are not read or answered: %s", error)

    def leaving(self, world: World, seconds: float) -> list[Leave]:
        """Returns the ranks that are to have left within so many seconds by what was agreed on, as the present
        membership numbers them. Numbers of another one do not count: the daemon is about to tell these
        ranks' numbers in this one.
        """
        present = (world.communicator, world.size)
        return [
            Leave(offer.terms.which, offer.id, offer.terms.due)
            for offer in self._known.values()
            if offer.state == "accepted"
            and offer.takes_ranks
            and is_near(offer.terms.due, seconds)
            and (offer.communicator, offer.of_ranks) == present
        ]

    def is_about(self, announcement: str) -> bool:
        """Returns whether an offer asks for the ranks that an announcement of this id will end."""
        return any(offer.announcement == announcement for offer in self._known.values())

    def announcement_of(self, offer: str) -> str:
        """Returns the id under which the offer's ranks were announced: its own, or that of an announcement."""
        known = self._known.get(offer)
        return offer if known is None or not known.announcement else known.announcement

    def _read(self, job: str) -> None:
        client = harmonaize.connect(timeout=_CALL_SECONDS)
        before, self._known = self._known, {}
        for offer in client.offers(job, state="open"):
            self._known[offer.id] = max(offer, before.get(offer.id, offer), key=lambda one: one.revision)
        self._answered = {name: revision for name, revision in self._answered.items() if name in self._known}

    def _answer_all(self, world: World) -> None:
        for offer in list(self._known.values()):
            is_new = offer.state == "offered" and self._answered.get(offer.id) != offer.revision
            if not is_new or time.monotonic() < self._answer_at:
                continue
            answer = self._decide(offer, world)
            if answer is not None:
                self._give(offer, answer)

    def _decide(self, offer: Offer, world: World) -> Answer | None:
        if self._answer_function is not None:
            return self._answer_function(offer, world)
        accepted = [one for one in self._known.values() if one.state == "accepted"]
        return self._bounds.answer(offer, Sizes.of(world, accepted))

    def _give(self, offer: Offer, answer: Answer) -> None:
        self._answer_at = time.monotonic() + _PAUSE_SECONDS
        try:
            self._known[offer.id] = give(harmonaize.connect(timeout=_CALL_SECONDS), offer, answer)
        except harmonaize.ProblemError as problem:
            if problem.status in _AGAIN_STATUSES:
                return
            _log.warning("%s is not answered by %r: %s", offer.id, answer, problem)
        self._answered[offer.id] = offer.revision
        self._answer_at = 0.0
