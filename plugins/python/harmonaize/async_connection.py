"""A connection to a daemon for asyncio."""

from __future__ import annotations

import asyncio
import time

from harmonaize.endpoint import Endpoint, TcpEndpoint
from harmonaize.errors import ConnectionLostError, NoDaemonError

_READ_BYTES = 64 << 10


class AsyncConnection:
    """A connection whose waiting can be cancelled at any place, and goes on afterwards where it was."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes what `open` has opened."""
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, endpoint: Endpoint, within: float) -> AsyncConnection:
        """Connects within so many seconds. NoDaemonError."""
        try:
            async with asyncio.timeout(within):
                if isinstance(endpoint, TcpEndpoint):
                    return cls(*await _open_tcp(endpoint))
                # A Unix socket connects at once, or not at all.
                return cls(*await asyncio.open_unix_connection(sock=endpoint.connect(0)))
        except TimeoutError as error:
            raise NoDaemonError(f"no daemon answers in time at {endpoint.describe()}") from error

    async def send(self, data: bytes) -> None:
        """Sends all of it. ConnectionLostError."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise _lost(error) from error

    async def receive(self, end: float | None) -> bytes | None:
        """Returns what has come, b"" at the end of the connection, or None if nothing has come until `end`.
        ConnectionLostError.
        """
        try:
            async with asyncio.timeout(None if end is None else max(0.0, end - time.monotonic())):
                return await self._reader.read(_READ_BYTES)
        except TimeoutError:
            return None
        except OSError as error:
            raise _lost(error) from error

    def close(self) -> None:
        """Closes the connection at once."""
        self._writer.transport.abort()


async def _open_tcp(endpoint: TcpEndpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = endpoint.address
    try:
        return await asyncio.open_connection(
            host, port, ssl=endpoint.tls, server_hostname=host if endpoint.tls is not None else None
        )
    except TimeoutError:
        raise
    except OSError as error:
        raise endpoint.explained(error) from error


def _lost(error: OSError) -> ConnectionLostError:
    return ConnectionLostError(f"the connection to the daemon broke: {error.strerror or error}")
