"""Servers that answer as no daemon would."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import tempfile
import threading
import typing

import harmonaize

Behaviour = typing.Callable[[socket.socket, bytes], None]


class HostileServer:
    """Calls `behaviour(connection, request)` for each request, one after the other."""

    def __init__(self, folder: pathlib.Path, behaviour: Behaviour) -> None:
        """Listens where a client looks for HTTP."""
        self.socket = folder / "d.sock"
        self.requests: list[bytes] = []
        self._behaviour = behaviour
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.socket) + ".http")
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def client(self, timeout: float = 20.0) -> harmonaize.Client:
        """A client of this server."""
        return harmonaize.connect(self.socket, timeout=timeout)

    def stop(self) -> None:
        """Ends it."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(20)
                request = connection.recv(65536)
                # A connection that only looks whether somebody listens sends nothing.
                if request:
                    self.requests.append(request)
                    self._behaviour(connection, request)


@contextlib.contextmanager
def hostile_server(behaviour: Behaviour | bytes) -> typing.Iterator[HostileServer]:
    """A server that ends with the block. Bytes are what it answers, whatever it is asked."""

    def answer(connection: socket.socket, _request: bytes) -> None:
        assert isinstance(behaviour, bytes)
        connection.sendall(behaviour)

    with tempfile.TemporaryDirectory(prefix="harmonaize-") as name:
        server = HostileServer(pathlib.Path(name), answer if isinstance(behaviour, bytes) else behaviour)
        try:
            yield server
        finally:
            server.stop()


def answer_of(body: bytes, content_type: str = "application/json", status: str = "200 OK") -> bytes:
    """An answer with this body."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def endless(begin: bytes, more: bytes) -> Behaviour:
    """A server that begins an answer and never ends it."""

    def serve(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(more * (65536 // len(more)))

    return serve
