"""What the provider asks of the job: ranks that are to leave, and places that are offered."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import typing

import harmonaize
from harmonaize.elastic.world import World
from harmonaize.events import Event

if typing.TYPE_CHECKING:
    from harmonaize.event_stream import EventStream


@dataclasses.dataclass(frozen=True)
class Leave:
    """These ranks of the present membership are to leave by the deadline, if there is one."""

    ranks: tuple[int, ...]
    id: str = ""
    deadline: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True)
class Places:
    """So many more ranks may join."""

    count: int
    id: str = ""


class Requests(typing.Protocol):
    """Knows what is asked of the job. Only rank 0 asks it, a few times a second."""

    def pending(self, world: World) -> typing.Iterable[Leave | Places]:
        """Yields what is asked, by the ranks' numbers in `world`. It does not wait."""

    def settled(self, request: Leave | Places, ticket: str | None) -> None:
        """Hears that the ranks have left, or of the ticket with which newcomers may take the places."""

    def close(self) -> None:
        """Hears that this rank does not ask any more."""


class EventRequests:
    """What events ask: ranks that the provider takes back (capacity.reclaim). All events are told to `hear`, too."""

    def __init__(self, hear: typing.Callable[[Event], None] | None = None, job: str | None = None) -> None:
        """Takes who hears of events, and the job's name; None: HARMONAIZE_JOB."""
        self._hear = hear
        self._job = job or os.environ.get("HARMONAIZE_JOB")
        self._stream: EventStream | None = None
        self._pending: list[Leave] = []
        self._epoch = 0

    def pending(self, world: World) -> typing.Iterable[Leave | Places]:
        """Yields the ranks of reclaims that came in this membership.

        Those of earlier ones are not counted: their numbers may be those of other ranks now.
        """
        if world.epoch != self._epoch:
            self._epoch = world.epoch
            self._pending = []
        for event in self._new_events():
            if self._hear is not None:
                self._hear(event)
            if event.type.endswith("capacity.reclaim"):
                self._pending.append(Leave(tuple(event.ranks), event.id, event.deadline))
        return list(self._pending)

    def settled(self, request: Leave | Places, ticket: str | None) -> None:
        """Tells the provider that the job is ready for what an event has announced."""
        del ticket
        if request.id:
            with contextlib.suppress(harmonaize.HarmonaizeError):
                harmonaize.connect().acknowledge(request.id)

    def close(self) -> None:
        """Ends the stream of events."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _new_events(self) -> list[Event]:
        """Returns what has come, or nothing where no daemon answers or the job has no name."""
        events: list[Event] = []
        if self._job is None:
            return events
        try:
            if self._stream is None:
                self._stream = harmonaize.connect().events(job=self._job)
            while (event := self._stream.next(0)) is not None:
                if isinstance(event, Event):
                    events.append(event)
        except harmonaize.HarmonaizeError:
            self.close()
        return events
