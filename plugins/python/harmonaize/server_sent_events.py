"""Server-sent events, taken apart as their bytes arrive. Source: HTML, section 9.2, "Server-sent events"."""

from __future__ import annotations

import dataclasses

from harmonaize.errors import AnswerError

# Bytes of one event, its line and all its fields. A daemon's have a tenth of it.
MOST_EVENT_BYTES = 1 << 20


@dataclasses.dataclass
class ServerSentEvent:
    """An event as it stands in the stream. An `id` of None: the event has none."""

    id: str | None = None
    event: str = ""
    data: str = ""


class EventDecoder:
    """Makes events of a stream's bytes. What was not ended by an empty line is no event."""

    def __init__(self) -> None:
        """Begins before the first byte."""
        self._rest = bytearray()
        self._next = ServerSentEvent()
        self._any_field = False
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Takes bytes in, and returns the events that are whole now. AnswerError: an event is too long, or no UTF-8."""
        whole: list[ServerSentEvent] = []
        self._rest += data
        if b"\n" not in data:
            self._check_size(len(self._rest))
            return whole
        lines = self._rest.split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._check_size(len(line))
            self._take_line(bytes(line).removesuffix(b"\r"), whole)
        self._check_size(len(self._rest))
        return whole

    def _check_size(self, more: int) -> None:
        if self._size + more > MOST_EVENT_BYTES:
            raise AnswerError(f"the daemon sent an event of more than {MOST_EVENT_BYTES} bytes")

    def _take_line(self, line: bytes, whole: list[ServerSentEvent]) -> None:
        if not line:
            if self._any_field:
                self._next.data = "\n".join(self._data)
                whole.append(self._next)
            self._next, self._any_field, self._data, self._size = ServerSentEvent(), False, [], 0
            return
        # A line counts with its end, so that lines without anything add up, too.
        self._size += len(line) + 1
        name, _, value = line.partition(b":")
        if name in {b"id", b"event", b"data"}:
            self._take_field(name, _text_of(value.removeprefix(b" ")))

    def _take_field(self, name: bytes, value: str) -> None:
        self._any_field = True
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._next.event = value
        elif "\0" not in value:
            self._next.id = value


def _text_of(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise AnswerError("the daemon sent an event that is no UTF-8") from error
