"""Servers that answer as no daemon would: each gets a clear error, in bounded memory and time."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import threading
import time
import typing

import pytest

import harmonaize
from harmonaize.response import ResponseParser
from hostile_servers import STREAM_HEAD, Behaviour, answer_of, endless, hostile_server

EVENT = {
    "specversion": "1.0",
    "id": "00000000000000000000000000000001.0000000000000001",
    "source": "/harmonaize/jobs/00000000000000000000000000000001",
    "type": "io.harmonaize.rank.lost",
    "time": "2026-11-26T08:45:00.5Z",
    "data": {"ranks": [1]},
}
BEGINNING = b"id: @tag-1-1\n\n"


def sse(event: typing.Any = EVENT, id: str = "x@tag-1-1") -> bytes:
    text = event if isinstance(event, str) else json.dumps(event)
    return f"id: {id}\nevent: io.harmonaize.rank.lost\ndata: {text}\n\n".encode()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "is no HTTP"),
        (b"HTTP/1.1 abc\r\n\r\n", "is no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "has '-5' bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", "two headers"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "more than 67108864 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "coded as 'gzip'"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "chunk of 'xyz' bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "chunk of '-1' bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", "longer than it says"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 300, "more than 256 bytes"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "is no HTTP"),
        (b"HTTP/1.1 301 Moved\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n", "redirects are not followed"),
        (b"HTTP/1.1 307 Temporary\r\nLocation: /v1/jobs\r\n\r\n", "redirects are not followed"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "interim"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 20, "interim"),
        (answer_of(b"nonsense"), "is no JSON"),
        (answer_of(b"\xff\xfe\xff"), "is no JSON"),
        (answer_of(b'{"jobs": NaN}'), "is no JSON"),
        (answer_of(b'{"jobs": ' + b"9" * 10000 + b"}"), "is no JSON"),
        (answer_of(b"[" * 200000 + b"]" * 200000), "nested too deeply"),
        (answer_of(b"<html>", "text/html"), "is no JSON, and does not say"),
        (answer_of(b"[]"), "is no object"),
        (answer_of(b"null"), "is no object"),
        (answer_of(b"{}"), "'jobs' of /v1/jobs is not a list"),
        (answer_of(b'{"jobs": [1]}'), "an entry of 'jobs' of /v1/jobs is no object"),
        (answer_of(b'{"jobs": [{"id": 5}]}'), "'id' of an entry"),
    ],
)
def test_nonsense_is_an_error_that_says_so(answer: bytes, why: str) -> None:
    with hostile_server(answer) as server, pytest.raises(harmonaize.AnswerError, match=why):
        server.client().jobs()


def test_an_answer_may_come_in_any_pieces_and_codings() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: Chunked\r\n\r\n"
    chunked += b'3;x="y"\r\n{"j\r\nA\r\nobs": []  \r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n'
    until_the_end = b"HTTP/1.0 200\r\nContent-Type: application/json\r\n\r\n" + b'{"jobs": []}'
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answer_of(b'{"jobs": []}')
    for answer in (chunked, until_the_end, interim):
        with hostile_server(answer) as server:
            assert server.client().jobs() == ()
        parser = ResponseParser(1000)
        body = b"".join(parser.feed(answer[at : at + 1]) for at in range(len(answer)))
        parser.end()
        assert json.loads(body) == {"jobs": []}


@pytest.mark.parametrize(
    ("begin", "more", "why"),
    [
        (b"", b"x", "is no HTTP"),
        (b"HTTP/1.1 200 ", b"O", "the head of the daemon's answer has more than"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y", "the head of the daemon's answer has more than"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"[", "more than 67108864 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFF\r\n", b"[", "more than 67108864 bytes"),
    ],
)
def test_what_never_ends_is_cut_off(begin: bytes, more: bytes, why: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with hostile_server(endless(begin, more)) as server, pytest.raises(harmonaize.AnswerError, match=why):
        server.client().jobs()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300 << 10, f"{grown} KiB"


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", answer_of(b"{}")[:-1]],
)
def test_half_an_answer_is_a_lost_connection(answer: bytes) -> None:
    with hostile_server(answer) as server, pytest.raises(harmonaize.ConnectionLostError):
        server.client().jobs()


def test_an_answer_that_drips_ends_with_the_time_of_the_call() -> None:
    def drip(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            connection.sendall(b"y")
            time.sleep(0.01)

    with hostile_server(drip) as server, pytest.raises(harmonaize.ConnectionLostError, match="in time"):
        server.client(timeout=0.3).jobs()


def test_problems_are_cleaned_before_people_see_them() -> None:
    detail = "\x1b]0;owned\x07 no \ud800\n" + "x" * 10000
    body = json.dumps({"type": "about:blank", "title": "T\x00", "status": 418, "detail": detail}).encode()
    with (
        hostile_server(answer_of(body, "application/problem+json", "418 Teapot")) as server,
        pytest.raises(harmonaize.ProblemError) as caught,
    ):
        server.client().jobs()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 2048
    assert (caught.value.status, caught.value.title) == (418, "T?")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"detail": 5}'])
def test_a_refusal_without_a_problem_has_its_status(body: bytes) -> None:
    with (
        hostile_server(answer_of(body, "text/html", "500 Oops")) as server,
        pytest.raises(harmonaize.ProblemError, match="the daemon answered with status 500"),
    ):
        server.client().jobs()


def test_a_busy_daemon_is_asked_again_but_told_only_once() -> None:
    def refuse_twice(connection: socket.socket, _request: bytes) -> None:
        if len(server.requests) <= 2:
            connection.sendall(answer_of(b"{}", "application/problem+json", "429 Too Many Requests"))
        else:
            connection.sendall(answer_of(b'{"jobs": []}'))

    with hostile_server(refuse_twice) as server:
        assert server.client().jobs() == ()
        assert len(server.requests) == 3
        server.requests.clear()
        with pytest.raises(harmonaize.ProblemError) as caught:
            server.client().acknowledge("x.y")
        assert caught.value.status == 429
        assert len(server.requests) == 1


def test_a_busy_daemon_is_asked_again_for_a_stream() -> None:
    def refuse_twice(connection: socket.socket, _request: bytes) -> None:
        if len(server.requests) % 3:
            connection.sendall(answer_of(b"{}", "application/problem+json", "429 Too Many Requests"))
        else:
            connection.sendall(STREAM_HEAD + BEGINNING + sse())

    async def listen() -> None:
        async with server.client().events_async() as following:
            event = await following.next(20)
            assert event is not None
            assert event.name == "rank.lost"

    with hostile_server(refuse_twice) as server:
        with server.client().events() as events:
            event = events.next(20)
            assert event is not None
            assert event.name == "rank.lost"
        asyncio.run(listen())
        assert len(server.requests) == 6


def listen_both_ways(behaviour: Behaviour | bytes, expected: type[Exception], why: str) -> None:
    """Reads a stream until it fails, first without and then with asyncio."""
    with hostile_server(behaviour) as server:
        client = server.client()

        def listen_without() -> None:
            with client.events() as events:
                while events.next(20) is not None:
                    pass

        with pytest.raises(expected, match=why):
            listen_without()

        async def listen() -> None:
            async with client.events_async() as following:
                while await following.next(20) is not None:
                    pass

        with pytest.raises(expected, match=why):
            asyncio.run(listen())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (answer_of(b"{}"), "no stream of events"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "redirects are not followed"),
        (STREAM_HEAD + BEGINNING + sse("nonsense"), "is no JSON"),
        (STREAM_HEAD + BEGINNING + sse("[" * 100000), "nested too deeply"),
        (STREAM_HEAD + BEGINNING + sse({}), "'source' of an event"),
        (STREAM_HEAD + BEGINNING + sse({**EVENT, "time": "yesterday"}), "'time' of an event"),
        (STREAM_HEAD + BEGINNING + sse({**EVENT, "time": "0001-01-01T00:00:00+23:00"}), "'time' of an event"),
        (STREAM_HEAD + BEGINNING + sse({**EVENT, "data": []}), "'data' of an event"),
        (STREAM_HEAD + BEGINNING + sse({**EVENT, "sequence": "-1"}), "'sequence' of an event"),
        (STREAM_HEAD + BEGINNING + sse(id="x" * 1000), "whose id is none"),
        (STREAM_HEAD + BEGINNING + sse(id="ü"), "whose id is none"),
        (STREAM_HEAD + BEGINNING + b"data: \xff\n\n", "no UTF-8"),
        (STREAM_HEAD + BEGINNING + b"event: io.harmonaize.events.missed\ndata: {}\n\n", "'missed' of a notice"),
    ],
)
def test_a_stream_of_nonsense_is_an_error_that_says_so(answer: bytes, why: str) -> None:
    listen_both_ways(answer, harmonaize.AnswerError, why)


@pytest.mark.parametrize(("begin", "more"), [(b"data: ", b"x"), (b"", b"data: x\n"), (b":", b":"), (b"", b"nothing\n")])
def test_an_event_that_never_ends_is_cut_off(begin: bytes, more: bytes) -> None:
    listen_both_ways(endless(STREAM_HEAD + BEGINNING + begin, more), harmonaize.AnswerError, "more than 1048576 bytes")


def test_a_problem_that_never_ends_is_cut_off() -> None:
    refusal = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n\r\n"
    listen_both_ways(endless(refusal, b"x"), harmonaize.AnswerError, "refuses with more than")


def test_half_an_event_is_none_and_is_asked_for_again() -> None:
    last = sse({**EVENT, "data": {"text": "whole"}}, id="second@tag-2-2")

    def serve(connection: socket.socket, _request: bytes) -> None:
        number = len(server.requests)
        if number == 1:
            connection.sendall(STREAM_HEAD + BEGINNING + sse(id="first@tag-1-1") + last[:-1])
        elif number == 2:
            # It ends in the middle of its head.
            connection.sendall(STREAM_HEAD[:-2])
        elif number == 3:
            connection.sendall(answer_of(b"{}", "application/problem+json", "503 Service Unavailable"))
        else:
            connection.sendall(STREAM_HEAD + last)
            finished.wait(20)

    finished = threading.Event()
    with hostile_server(serve) as server:
        try:
            with server.client().events() as events:
                first, second = events.next(20), events.next(20)
                assert isinstance(first, harmonaize.Event)
                assert isinstance(second, harmonaize.Event)
                assert (first.cursor, second.cursor, second.text) == ("first@tag-1-1", "second@tag-2-2", "whole")
        finally:
            finished.set()
    assert len(server.requests) == 4
    assert b"Last-Event-ID" not in server.requests[0]
    assert all(b"Last-Event-ID: first@tag-1-1\r\n" in request for request in server.requests[1:])


def test_a_stream_that_does_not_say_where_it_begins_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harmonaize.event_stream.AGREES_SECONDS", 0.1)
    monkeypatch.setattr("harmonaize.async_event_stream.AGREES_SECONDS", 0.1)

    def serve(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(STREAM_HEAD + b":\n\n")
        connection.recv(1)

    listen_both_ways(serve, harmonaize.ConnectionLostError, "did not agree in time|says nothing")


def test_pages_that_lead_nowhere_end() -> None:
    page = {"events": [EVENT], "missed": 2, "more": True, "next": "x@tag-1-1"}
    with hostile_server(answer_of(json.dumps(page).encode())) as server:
        events = server.client().kept_events(after="x@tag-1-1")
        missed = next(events)
        assert isinstance(missed, harmonaize.Missed)
        assert missed.count == 2
        assert next(events).name == "rank.lost"
        with pytest.raises(harmonaize.AnswerError, match="does not say where"):
            next(events)


def test_fields_that_nobody_knows_are_kept() -> None:
    event = {
        **EVENT,
        "colour": "blue",
        "data": {"ranks": [1, "x"], "not_before": "2026-11-26T09:45:00+01:00", "new": 1},
    }
    read = harmonaize.Event.from_document(event)
    assert read.raw["colour"] == "blue"
    assert (read.ranks, read.data["new"], read.text, read.subject) == ((1,), 1, "", None)
    assert read.deadline is not None
    assert read.deadline.isoformat() == "2026-11-26T08:45:00+00:00"
    assert harmonaize.Event.from_document({**event, "data": {"deadline": 5}}).deadline is None
