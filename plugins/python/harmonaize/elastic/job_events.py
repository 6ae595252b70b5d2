"""The events of a job, as rank 0 reads them between two steps."""

from __future__ import annotations

import time
import typing

import harmonaize
from harmonaize.events import Event

if typing.TYPE_CHECKING:
    from harmonaize.event_stream import EventStream

# Seconds between two tries to hear of events, which a daemon refuses while it knows nothing of the job.
_AGAIN_SECONDS = 1.0


class JobEvents:
    """Takes what has come, and connects again where no daemon answers."""

    def __init__(self, job: str | None) -> None:
        """Takes the job's name; None: there are no events."""
        self._job = job
        self._stream: EventStream | None = None
        self._tries_at = 0.0

    def take(self) -> tuple[list[Event], bool]:
        """Returns the events that have come, and whether others may have been missed. It waits for none."""
        events: list[Event] = []
        if self._job is None:
            return events, False
        missed = False
        try:
            if self._stream is None:
                if time.monotonic() < self._tries_at:
                    return events, False
                self._tries_at = time.monotonic() + _AGAIN_SECONDS
                self._stream = harmonaize.connect().events(job=self._job)
                missed = True
            while (event := self._stream.next(0)) is not None:
                if isinstance(event, Event):
                    events.append(event)
                else:
                    missed = True
        except harmonaize.HarmonaizeError:
            self.close()
        return events, missed

    def close(self) -> None:
        """Ends the stream."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
