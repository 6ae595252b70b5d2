"""Events as they come, for programs without asyncio."""

from __future__ import annotations

import threading
import time
import types
import typing

from harmonaize.connection import Connection, Waker, until, wait_for
from harmonaize.endpoint import Endpoint
from harmonaize.errors import ConnectionLostError, HarmonaizeError, ProblemError
from harmonaize.event_query import EventQuery
from harmonaize.events import Event, Missed
from harmonaize.subscription import AGREES_SECONDS, SILENCE_SECONDS, Subscription, is_final


class EventStream:
    """Events that come, one after the other.

    `for event in stream` goes on until `close()`, or, with a timeout, until no event has come for so long; another loop
    over the same stream goes on behind it. When the connection breaks, or the daemon is restarted, the stream waits for
    the daemon and goes on behind the last event; what is kept no more is counted in a `Missed`. Thread: one at a time,
    except `close()`, which any thread and any signal handler may call.

    Errors while reading: ProblemError where the daemon refuses, such as for a token that was revoked; AnswerError for
    what is no stream of events. The stream is closed then.
    """

    def __init__(self, endpoint: Endpoint, query: EventQuery, timeout: float | None) -> None:
        """Connects, and returns once the daemon has agreed: no later event is missed. Client.events makes streams.

        Errors: NoDaemonError, ConnectionLostError, ProblemError and AnswerError.
        """
        self.timeout = timeout
        self._connection: Connection | None = None
        self._endpoint = endpoint
        self._subscription = Subscription(endpoint, query)
        self._connects_at = 0.0
        self._heard_at = 0.0
        self._closed = False
        self._reading = False
        # A handler of signals may close the stream while the same thread releases it.
        self._lock = threading.RLock()
        self._waker: Waker | None = Waker()
        try:
            self._await_agreement()
        except BaseException:
            self.close()
            raise

    @property
    def position(self) -> str | None:
        """What `after` takes to go on where this stream is; None: nothing was heard yet."""
        return self._subscription.position

    @property
    def connected(self) -> bool:
        """Whether there is a connection now, as far as is known. Without one the stream waits for the daemon."""
        return self._subscription.connected

    def next(self, timeout: float | None = None) -> Event | Missed | None:
        """Returns the next event, and waits for it for `timeout` seconds; None: for ever; 0: it takes what has come.
        Returns None if none has come, or the stream is closed.

        A new connection over TLS may take longer than the timeout.
        """
        end = until(timeout)
        with self._lock:
            if self._reading:
                raise RuntimeError("another thread reads this stream")
            self._reading = True
        try:
            return self._next(end)
        except HarmonaizeError:
            self._closed = True
            raise
        finally:
            self._reading = False
            if self._closed:
                self._release()

    def __iter__(self) -> typing.Iterator[Event | Missed]:
        """Yields events until the stream is closed, or none has come for the stream's timeout."""
        while (event := self.next(self.timeout)) is not None:
            yield event

    def close(self) -> None:
        """Ends the stream, and the waiting for its next event."""
        self._closed = True
        with self._lock:
            if self._reading and self._waker is not None:
                self._waker.wake()
                return
        self._release()

    def __enter__(self) -> typing.Self:
        """Returns the stream."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Closes the stream."""
        self.close()

    def __del__(self) -> None:
        """Closes a stream that nobody has closed."""
        if hasattr(self, "_waker"):
            self.close()

    def _next(self, end: float | None) -> Event | Missed | None:
        while not self._closed:
            event = self._subscription.pop()
            if event is not None:
                return event
            if not self._get_on(end):
                return None
        return None

    def _release(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            waker, self._waker = self._waker, None
        self._subscription.connected = False
        if connection is not None:
            connection.close()
        if waker is not None:
            waker.close()

    def _await_agreement(self) -> None:
        """Waits until the daemon agrees. One that is busy is asked again."""
        end = time.monotonic() + AGREES_SECONDS
        while True:
            try:
                self._agree(end)
            except ProblemError as problem:
                self._lose()
                if is_final(problem) or self._connects_at > end:
                    raise
                wait_for(self._connects_at, None)
            else:
                return

    def _agree(self, end: float) -> None:
        self._connect(AGREES_SECONDS)
        while not self._subscription.connected:
            if self._connection is None or not self._receive(end):
                raise ConnectionLostError("the daemon did not agree in time to tell events")

    def _get_on(self, end: float | None) -> bool:
        """Connects or receives something. Returns False if the time is up or the stream was closed."""
        try:
            if self._connection is not None:
                return self._receive(end)
            if self._connects_at > time.monotonic():
                due = self._connects_at if end is None else min(self._connects_at, end)
                wait_for(due, self._waker)
                return end is None or time.monotonic() < end
            self._connect(AGREES_SECONDS)
        except HarmonaizeError as error:
            if is_final(error):
                raise
            self._lose()
        return not self._closed

    def _connect(self, within: float) -> None:
        connection = Connection(self._endpoint, within)
        self._connection = connection
        connection.send(self._subscription.begin(), within)
        self._heard_at = time.monotonic()

    def _receive(self, end: float | None) -> bool:
        """Takes in what has come. Returns False if nothing has until `end`. ConnectionLostError: silence for long."""
        connection = self._connection
        if connection is None:
            return False
        patience = SILENCE_SECONDS if self._subscription.connected else AGREES_SECONDS
        silent_at = self._heard_at + patience
        data = connection.receive(silent_at if end is None else min(silent_at, end), self._waker)
        if data is not None:
            self._heard_at = time.monotonic()
            self._subscription.feed(data)
            return True
        if not self._closed and time.monotonic() >= silent_at:
            raise ConnectionLostError("the daemon says nothing")
        return False

    def _lose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._connects_at = time.monotonic() + self._subscription.lose()
