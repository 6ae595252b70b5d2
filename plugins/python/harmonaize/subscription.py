"""A stream of events without its connection: what is sent, what comes of the answer, and how it goes on.

`EventStream` and `AsyncEventStream` bring bytes in. Here is what both have in common.
"""

from __future__ import annotations

import collections
import random

from harmonaize.documents import parse_json
from harmonaize.endpoint import Endpoint
from harmonaize.errors import AnswerError, ConnectionLostError, ProblemError
from harmonaize.event_query import EventQuery
from harmonaize.events import MISSED_TYPE, Event, Missed
from harmonaize.exchange import TOO_MANY_REQUESTS, problem_in
from harmonaize.response import ResponseParser
from harmonaize.server_sent_events import EventDecoder, ServerSentEvent

# A daemon says something at least every 15 s, if only that it is there. After so many seconds of silence the connection
# is taken for broken, and another one is made.
SILENCE_SECONDS = 60.0
# Longest time in which a daemon agrees to a stream, in seconds: it may be busy.
AGREES_SECONDS = 10.0
# Pauses before connecting again, in seconds. The first is short, since a daemon that is restarted is back soon.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
# Pauses are shortened by up to this part, so that many readers do not come back at once.
_JITTER = 0.5
# Longest problem of a refused stream that is read, in bytes, and longest id of an event.
_MOST_PROBLEM_BYTES = 64 << 10
_LONGEST_ID = 512
_OK, _FIRST_FAULT_OF_SERVER = 200, 500


class Subscription:
    """Where a reader of events is. Thread: one."""

    def __init__(self, endpoint: Endpoint, query: EventQuery) -> None:
        """Begins where the query says."""
        self.position = query.after
        self.connected = False
        self._endpoint = endpoint
        self._query = query
        self._ready: collections.deque[Event | Missed] = collections.deque()
        self._pause = 0.0
        self._begin()

    def begin(self) -> bytes:
        """Returns what is sent over a new connection."""
        self._begin()
        return self._query.stream_request(self.position).to_bytes(self._endpoint.host, self._endpoint.token)

    def _begin(self) -> None:
        self._parser = ResponseParser(None)
        self._decoder = EventDecoder()
        self._problem = bytearray()

    def feed(self, data: bytes) -> None:
        """Takes in what has come; b"" is the end of the connection.

        Errors: ConnectionLostError where the stream has ended, ProblemError where the daemon refuses, and AnswerError
        for what is no stream of events.
        """
        if not data:
            self._parser.end()
        body = self._parser.feed(data)
        head = self._parser.head
        if head is None:
            return
        if head.status != _OK:
            self._take_refusal(head.status, body)
            return
        if head.content_type != "text/event-stream":
            raise AnswerError("the daemon's answer is no stream of events")
        for event in self._decoder.feed(body):
            self._take(event)
        # A stream of what is to come begins with its place. Before it comes, events could be missed unnoticed.
        self.connected = self.position is not None or self._query.begin == "start"
        if self._parser.done:
            raise ConnectionLostError("the daemon ended the stream of events")

    def pop(self) -> Event | Missed | None:
        """Removes and returns the next event that has come; None: none has."""
        return self._ready.popleft() if self._ready else None

    def lose(self) -> float:
        """Notes that there is no connection. Returns the seconds to wait before the next one."""
        self.connected = False
        self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
        return self._pause * random.uniform(1 - _JITTER, 1)  # noqa: S311

    def _take_refusal(self, status: int, body: bytes) -> None:
        self._problem += body
        if len(self._problem) > _MOST_PROBLEM_BYTES:
            raise AnswerError(f"the daemon refuses with more than {_MOST_PROBLEM_BYTES} bytes")
        if self._parser.done:
            raise problem_in(status, bytes(self._problem))

    def _take(self, event: ServerSentEvent) -> None:
        position = self.position
        if event.id:
            position = _checked_id(event.id)
        # Without data it only says from where to go on.
        if event.data:
            document = parse_json(event.data)
            if event.event == MISSED_TYPE:
                self._ready.append(Missed.from_document(document))
            else:
                self._ready.append(Event.from_document(document, position if event.id else None))
        self.position = position
        self._pause = 0.0


def is_final(error: Exception) -> bool:
    """Returns whether a reader that was connected gives up. It waits for a daemon that has gone to come back, and for
    one that is busy, or about to end, to agree.
    """
    if isinstance(error, ProblemError):
        return error.status != TOO_MANY_REQUESTS and error.status < _FIRST_FAULT_OF_SERVER
    return isinstance(error, AnswerError)


def _checked_id(text: str) -> str:
    if len(text) > _LONGEST_ID or not text.isascii() or not text.isprintable() or text != text.strip():
        raise AnswerError("the daemon sent an event whose id is none")
    return text
