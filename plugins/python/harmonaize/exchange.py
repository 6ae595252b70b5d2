"""One request and its answer, over a connection of their own."""

from __future__ import annotations

import asyncio
import dataclasses
import time
import typing

from harmonaize.async_connection import AsyncConnection
from harmonaize.connection import Connection, left_until
from harmonaize.documents import parse_json
from harmonaize.endpoint import Endpoint
from harmonaize.errors import AnswerError, ConnectionLostError, ProblemError
from harmonaize.request import Request
from harmonaize.response import ResponseParser

# Largest document that is read, in bytes: far more than any of a daemon.
MOST_DOCUMENT_BYTES = 64 << 20
# A daemon that takes no more calls for the moment answers so (RFC 6585). It lets the caller have the next one within
# some tens of milliseconds, so what only reads is asked again after this pause.
TOO_MANY_REQUESTS = 429
_PAUSE_SECONDS = 0.25
_FIRST_REFUSAL = 400


@dataclasses.dataclass(frozen=True)
class Response:
    """A whole answer."""

    status: int
    content_type: str
    body: bytes

    def check(self) -> Response:
        """Returns the answer. ProblemError: the daemon refuses."""
        if self.status >= _FIRST_REFUSAL:
            raise problem_in(self.status, self.body)
        return self

    def json(self) -> typing.Any:
        """Returns the document; None where there is no body. AnswerError: it is no JSON."""
        if not self.body:
            return None
        if not self.content_type.endswith("json"):
            raise AnswerError("the daemon's answer is no JSON, and does not say that it is")
        return parse_json(self.body)


def exchange(endpoint: Endpoint, request: Request, within: float) -> Response:
    """Makes the request, and returns the answer. It takes `within` seconds at most.

    Errors: NoDaemonError, ConnectionLostError, AnswerError, and ProblemError where the daemon refuses.
    """
    end = time.monotonic() + within
    while True:
        response = _exchange_once(endpoint, request, end)
        if not _asks_again(request, response, end):
            return response.check()
        time.sleep(_PAUSE_SECONDS)


async def exchange_async(endpoint: Endpoint, request: Request, within: float) -> Response:
    """Does what `exchange` does, for asyncio."""
    end = time.monotonic() + within
    while True:
        response = await _exchange_once_async(endpoint, request, end)
        if not _asks_again(request, response, end):
            return response.check()
        await asyncio.sleep(_PAUSE_SECONDS)


def problem_in(status: int, body: bytes) -> ProblemError:
    """Returns the problem that an answer reports."""
    try:
        document = parse_json(body)
    except AnswerError:
        document = None
    texts = document if isinstance(document, dict) else {}

    def text(name: str) -> str:
        value = texts.get(name)
        return value if isinstance(value, str) else ""

    return ProblemError(status, text("title"), text("detail"), text("type") or "about:blank")


def _asks_again(request: Request, response: Response, end: float) -> bool:
    only_reads = request.method == "GET"
    return only_reads and response.status == TOO_MANY_REQUESTS and time.monotonic() + _PAUSE_SECONDS < end


def _exchange_once(endpoint: Endpoint, request: Request, end: float) -> Response:
    connection = Connection(endpoint, left_until(end) or 0.0)
    try:
        connection.send(request.to_bytes(endpoint.host, endpoint.token), left_until(end) or 0.0)
        answer = _Answer()
        while not answer.parser.done:
            answer.take(connection.receive(end))
    finally:
        connection.close()
    return answer.response()


async def _exchange_once_async(endpoint: Endpoint, request: Request, end: float) -> Response:
    connection = await AsyncConnection.open(endpoint, left_until(end) or 0.0)
    try:
        await connection.send(request.to_bytes(endpoint.host, endpoint.token))
        answer = _Answer()
        while not answer.parser.done:
            answer.take(await connection.receive(end))
    finally:
        connection.close()
    return answer.response()


class _Answer:
    """An answer that arrives."""

    def __init__(self) -> None:
        self.parser = ResponseParser(MOST_DOCUMENT_BYTES)
        self._body = bytearray()

    def take(self, data: bytes | None) -> None:
        if data is None:
            raise ConnectionLostError("no answer of the daemon came in time")
        if data:
            self._body += self.parser.feed(data)
        else:
            self.parser.end()

    def response(self) -> Response:
        head = self.parser.head
        if head is None:
            raise ConnectionLostError("the daemon's answer has no head")
        return Response(head.status, head.content_type, bytes(self._body))
