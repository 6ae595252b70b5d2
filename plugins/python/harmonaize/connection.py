"""A connection to a daemon that polls: it sends one request, and receives what comes until a time is up."""

from __future__ import annotations

import os
import select
import socket
import ssl
import time

from harmonaize.endpoint import Endpoint
from harmonaize.errors import ConnectionLostError

_READ_BYTES = 64 << 10
# Longest time that the kernel is asked to wait at once, in seconds.
_LONGEST_POLL = 86400.0


def until(seconds: float | None) -> float | None:
    """Returns when so many seconds will have passed; None: never."""
    return None if seconds is None else time.monotonic() + seconds


def left_until(end: float | None) -> float | None:
    """Returns the seconds that are left; None: for ever."""
    return None if end is None else max(0.0, end - time.monotonic())


class Waker:
    """Ends the waiting of another thread, or of the code that a signal handler interrupts."""

    def __init__(self) -> None:
        """Makes a descriptor."""
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def wake(self) -> None:
        """Ends this waiting and all later ones."""
        os.eventfd_write(self.descriptor, 1)

    def close(self) -> None:
        """Gives the descriptor back."""
        os.close(self.descriptor)


class Connection:
    """A connected socket. Thread: one at a time."""

    def __init__(self, endpoint: Endpoint, within: float) -> None:
        """Connects within so many seconds. NoDaemonError."""
        self._socket = endpoint.connect(within)

    def send(self, data: bytes, within: float) -> None:
        """Sends all of it. ConnectionLostError."""
        try:
            self._socket.settimeout(max(within, 0.001))
            self._socket.sendall(data)
            self._socket.setblocking(False)  # noqa: FBT003
        except OSError as error:
            raise _lost(error) from error

    def receive(self, end: float | None, waker: Waker | None = None) -> bytes | None:
        """Returns what has come, b"" at the end of the connection, or None if nothing has come until `end` (None:
        never) or the waker has woken. ConnectionLostError.
        """
        while True:
            wanted = select.POLLIN
            try:
                return self._socket.recv(_READ_BYTES)
            except ssl.SSLWantWriteError:
                wanted = select.POLLOUT
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError):
                pass
            except ssl.SSLEOFError:
                return b""
            except OSError as error:
                raise _lost(error) from error
            if not wait_for(end, waker, self._socket, wanted):
                return None

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()


def wait_for(
    end: float | None, waker: Waker | None, one: socket.socket | None = None, wanted: int = select.POLLIN
) -> bool:
    """Waits until `one` can be used, or until `end`. Returns whether it can; False also if the waker has woken."""
    poll = select.poll()
    if one is not None:
        poll.register(one, wanted)
    if waker is not None:
        poll.register(waker.descriptor, select.POLLIN)
    left = left_until(end)
    ready = poll.poll(None if left is None else min(left, _LONGEST_POLL) * 1000)
    return bool(ready) and (waker is None or all(descriptor != waker.descriptor for descriptor, _ in ready))


def _lost(error: OSError) -> ConnectionLostError:
    why = "it took too long" if isinstance(error, TimeoutError) else error.strerror or str(error)
    return ConnectionLostError(f"the connection to the daemon broke: {why}")
