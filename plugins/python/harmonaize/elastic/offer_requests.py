"""What rank 0 follows unless `elastic.run` is given something else: offers, and announcements without one."""

from __future__ import annotations

import contextlib
import os
import time
import typing

import harmonaize
from harmonaize.elastic.answers import Bounds
from harmonaize.elastic.job_events import JobEvents
from harmonaize.elastic.job_offers import AnswerFunction, JobOffers
from harmonaize.elastic.requests import Leave, Places, is_near
from harmonaize.elastic.world import World
from harmonaize.events import Event

# Seconds before ranks have to have left at which they begin to leave, unless a program says otherwise: the last step,
# the change and the end of a process fit into them, and places that are asked for long before are used until then.
LEAVE_BEFORE_SECONDS = 60.0
# How the ids of offers begin. Others in `capacity.reclaim` are those of announcements.
_OFFER_PREFIX = "offer-"
# Seconds for which an announcement waits for an offer about the same ranks, which another host may have made.
_OFFER_SECONDS = 2.0


class OfferRequests:
    """Answers the offers to a job and follows what was agreed on. Announced reclaims about which there is no offer are
    followed as they are. All events are told to `hear`, too.
    """

    def __init__(
        self,
        bounds: Bounds,
        answer: AnswerFunction | None = None,
        hear: typing.Callable[[Event], None] | None = None,
        leave_before: float = LEAVE_BEFORE_SECONDS,
    ) -> None:
        """Takes what answers offers, the bounds where that is None, who hears of events of HARMONAIZE_JOB, and how many
        seconds before ranks have to have left they begin to leave.
        """
        job = os.environ.get("HARMONAIZE_JOB")
        self._hear = hear
        self._leave_before = leave_before
        self._events = JobEvents(job)
        self._offers = JobOffers(job, bounds, answer)
        self._epoch = 0
        # Reclaims that were announced in this membership, and when, by the local clock.
        self._announced: list[tuple[Event, float]] = []

    def pending(self, world: World) -> typing.Iterable[Leave | Places]:
        """Yields ranks that are to leave.

        Announcements that came before the first look at this membership do not count: their numbers may be those of
        other ranks now. Before this rank's first look it has heard none.
        """
        changed = world.epoch != self._epoch
        self._epoch = world.epoch
        news = self._take_events()
        if changed:
            self._announced = []
        self._offers.look(world, news=news or changed)
        return [*self._offers.leaving(world, self._leave_before), *self._unasked()]

    def settled(self, request: Leave | Places, ticket: str | None) -> None:
        """Tells the provider that the job is ready for what an event has announced."""
        del ticket
        announcement = self._offers.announcement_of(request.id)
        for event, _ in self._announced:
            if request.id == event.id or announcement == event.data.get("offer"):
                with contextlib.suppress(harmonaize.HarmonaizeError):
                    harmonaize.connect().acknowledge(event)

    def close(self) -> None:
        """Ends the stream of events."""
        self._events.close()

    def _take_events(self) -> bool:
        """Takes in what has come. Returns whether offers may have changed."""
        events, news = self._events.take()
        for event in events:
            if self._hear is not None:
                self._hear(event)
            if event.name == "capacity.reclaim":
                self._announced.append((event, time.monotonic()))
            news = news or event.name in {"offer.changed", "capacity.reclaim"}
        return news

    def _unasked(self) -> list[Leave]:
        """Returns the announced reclaims about which the job is not asked."""
        return [
            Leave(event.ranks, event.id, event.deadline)
            for event, heard_at in self._announced
            if is_near(event.deadline, self._leave_before)
            and self._is_unasked(event.data.get("offer"), time.monotonic() - heard_at)
        ]

    def _is_unasked(self, announcement: object, seconds: float) -> bool:
        if not isinstance(announcement, str):
            return True
        if announcement.startswith(_OFFER_PREFIX) or self._offers.is_about(announcement):
            return False
        return seconds >= _OFFER_SECONDS
