"""Events as they come, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import time
import types
import typing

from harmonaize.async_connection import AsyncConnection
from harmonaize.connection import left_until, until
from harmonaize.endpoint import Endpoint
from harmonaize.errors import ConnectionLostError, HarmonaizeError, ProblemError
from harmonaize.event_query import EventQuery
from harmonaize.events import Event, Missed
from harmonaize.exchange import exchange_async
from harmonaize.job_list import JOBS, job_list
from harmonaize.subscription import AGREES_SECONDS, SILENCE_SECONDS, Subscription, is_final


class AsyncEventStream:
    """Events that come, one after the other, in one event loop.

    What EventStream says holds here, too: `async for` goes on until the stream is closed or, with a timeout, until no
    event has come for so long. `next()` may be cancelled, and loses nothing then. `async with` connects at once and
    closes at its end; otherwise the first `next()` connects, and a loop that is left drops the connection.
    """

    def __init__(self, endpoint: Endpoint, query: EventQuery, timeout: float | None) -> None:
        """Does not connect yet. Client.events_async makes streams."""
        self.timeout = timeout
        self._connection: AsyncConnection | None = None
        self._endpoint = endpoint
        self._query = query
        self._subscription: Subscription | None = None
        self._agreed = False
        self._connects_at = 0.0
        self._heard_at = 0.0
        self._closed = asyncio.Event()
        self._reading = False
        self._in_block = False

    @property
    def position(self) -> str | None:
        """What `after` takes to go on where this stream is; None: nothing was heard yet."""
        return self._query.after if self._subscription is None else self._subscription.position

    @property
    def connected(self) -> bool:
        """Whether there is a connection now, as far as is known. Without one the stream waits for the daemon."""
        return self._subscription is not None and self._subscription.connected

    async def next(self, timeout: float | None = None) -> Event | Missed | None:  # noqa: ASYNC109
        """Returns the next event, and waits for it for `timeout` seconds; None: for ever. Returns None if none has
        come, or the stream is closed.

        Errors: as of EventStream, and for the first call those of connecting.
        """
        if self._reading:
            raise RuntimeError("another task reads this stream")
        self._reading = True
        try:
            return await self._next(until(timeout))
        except HarmonaizeError:
            if self._closed.is_set():
                return None
            self.close()
            raise
        finally:
            self._reading = False
            if self._closed.is_set():
                self._lose()

    async def __aiter__(self) -> typing.AsyncIterator[Event | Missed]:
        """Yields events until the stream is closed, or none has come for the stream's timeout."""
        try:
            while (event := await self.next(self.timeout)) is not None:
                yield event
        finally:
            # A loop outside of an `async with` block may be left at any time, so it keeps no connection. The next loop
            # goes on behind the last event.
            if not self._in_block:
                self._lose()

    def close(self) -> None:
        """Ends the stream. A task that waits for an event gets None."""
        self._closed.set()
        if self._connection is not None:
            # The task that waits sees the end of its connection.
            self._connection.close()

    async def __aenter__(self) -> typing.Self:
        """Connects: no event that comes from now on is missed."""
        self._in_block = True
        try:
            await self._await_agreement()
        except BaseException:
            self.close()
            self._lose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Closes the stream."""
        self.close()
        self._lose()

    def __del__(self) -> None:
        """Closes the connection of a stream that nobody has closed."""
        connection = getattr(self, "_connection", None)
        if connection is not None:
            with contextlib.suppress(RuntimeError):  # The event loop may have ended.
                connection.close()

    async def _next(self, end: float | None) -> Event | Missed | None:
        if not self._agreed and not self._closed.is_set():
            await self._await_agreement()
        subscription = self._subscription
        while not self._closed.is_set() and subscription is not None:
            event = subscription.pop()
            if event is not None:
                return event
            if not await self._get_on(subscription, end):
                return None
        return None

    async def _await_agreement(self) -> None:
        """Waits until the daemon agrees. One that is busy is asked again."""
        end = time.monotonic() + AGREES_SECONDS
        if self._subscription is None:
            self._subscription = Subscription(self._endpoint, await self._resolved())
        while not self._agreed:
            try:
                await self._agree(self._subscription, end)
            except ProblemError as problem:
                self._lose()
                if is_final(problem) or self._connects_at > end:
                    raise
                await self._pause_until(self._connects_at)

    async def _agree(self, subscription: Subscription, end: float) -> None:
        if self._connection is None:
            await self._connect(subscription)
        while not subscription.connected:
            if not await self._receive(subscription, end):
                raise ConnectionLostError("the daemon did not agree in time to tell events")
        self._agreed = True

    async def _resolved(self) -> EventQuery:
        if not self._query.names_a_job_by_name:
            return self._query
        response = await exchange_async(self._endpoint, JOBS, AGREES_SECONDS)
        return self._query.with_job(job_list(response.json()))

    async def _get_on(self, subscription: Subscription, end: float | None) -> bool:
        """Connects or receives something. Returns False if the time is up."""
        try:
            if self._connection is not None:
                return await self._receive(subscription, end)
            if self._connects_at > time.monotonic():
                await self._pause_until(self._connects_at if end is None else min(self._connects_at, end))
                return end is None or time.monotonic() < end
            await self._connect(subscription)
        except HarmonaizeError as error:
            if is_final(error):
                raise
            self._lose()
        return True

    async def _pause_until(self, end: float) -> None:
        """Waits until then, or until the stream is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_until(end)):
                await self._closed.wait()

    async def _connect(self, subscription: Subscription) -> None:
        self._connection = await AsyncConnection.open(self._endpoint, AGREES_SECONDS)
        self._heard_at = time.monotonic()
        await self._connection.send(subscription.begin())

    async def _receive(self, subscription: Subscription, end: float | None) -> bool:
        """Takes in what has come. Returns False if nothing has until `end`. ConnectionLostError: silence for long."""
        if self._connection is None:
            return False
        patience = SILENCE_SECONDS if subscription.connected else AGREES_SECONDS
        silent_at = self._heard_at + patience
        data = await self._connection.receive(silent_at if end is None else min(silent_at, end))
        if data is not None:
            self._heard_at = time.monotonic()
            subscription.feed(data)
            return True
        if time.monotonic() >= silent_at:
            raise ConnectionLostError("the daemon says nothing")
        return False

    def _lose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._subscription is not None:
            self._connects_at = time.monotonic() + self._subscription.lose()
