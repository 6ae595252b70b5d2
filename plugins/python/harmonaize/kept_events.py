"""Pages of the events that a daemon has kept."""

from __future__ import annotations

import typing

from harmonaize.documents import Fields
from harmonaize.errors import AnswerError
from harmonaize.event_query import EventQuery
from harmonaize.events import MISSED_TYPE, Event, Missed
from harmonaize.request import Request

# Events that are asked for at once. A daemon gives up to 1000; the largest ones should fit a document.
_EVENTS_OF_PAGE = 500


def kept_events(query: EventQuery, call: typing.Callable[[Request], typing.Any]) -> typing.Iterator[Event | Missed]:
    """Yields the events of all pages. `call` makes a request and returns the document."""
    position = query.after
    more = True
    while more:
        page = Fields(call(query.page_request(position, _EVENTS_OF_PAGE)), "a page of events")
        missed = page.integer("missed")
        if missed > 0:
            text = f"{missed} events have come since, and are kept no more"
            yield Missed(missed, text, {"type": MISSED_TYPE, "missed": missed, "text": text})
        following = page.optional_text("next")
        events = page.objects("events", lambda fields: Event.from_document(fields.raw))
        yield from events
        more = page.yes("more")
        if more and following in {None, position}:
            raise AnswerError(
                "the daemon's answer is malformed: a page of events with others behind it does not say where"
            )
        position = following
