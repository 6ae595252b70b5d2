"""Answers of HTTP/1.1, taken apart as their bytes arrive.

The parser does no input and no output, so calls that wait, calls that poll and asyncio share it. The server is
believed in nothing: lines, heads and bodies have a greatest length, and what is not HTTP is an AnswerError.
Source: RFC 9112, sections 4 (status line), 6 (body) and 7 (chunks).
"""

from __future__ import annotations

import dataclasses
import http.client
import io
import re

from harmonaize.errors import AnswerError, ConnectionLostError, clean

# Bytes of an answer's head, and of what may stand behind its last chunk. A daemon's have some hundreds.
MOST_HEAD_BYTES = 32 << 10
# Bytes of the line before a chunk: a size in 16 digits, and extensions that nobody sends.
_MOST_SIZE_LINE_BYTES = 256
# Interim answers (100 to 199) before the one that counts.
_MOST_INTERIM = 8
# Longest text of an answer that an error repeats, in characters.
_MOST_SHOWN = 80
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)(?: [^\r\n]*)?")
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_INTERIM, _SUCCESS, _NO_CONTENT, _REDIRECTS, _NOT_MODIFIED, _ERRORS = 100, 200, 204, 300, 304, 400


@dataclasses.dataclass(frozen=True)
class Head:
    """The status of an answer, and its headers by their names in lower case."""

    status: int
    headers: dict[str, str]

    @property
    def content_type(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class ResponseParser:
    """Takes one answer apart. `most_body_bytes` None: a stream, whose body has no greatest length."""

    def __init__(self, most_body_bytes: int | None) -> None:
        """Begins before the first byte."""
        self.head: Head | None = None
        self.done = False
        self._most = most_body_bytes
        self._taken = 0
        self._interim = 0
        self._buffer = bytearray()
        self._chunked = False
        # Bytes of the body or of the chunk that are to come; None: until the connection ends.
        self._left: int | None = None
        self._in_chunk = False
        self._in_trailer = False

    def feed(self, data: bytes) -> bytes:
        """Takes bytes in, and returns those of the body among them. AnswerError: this is no answer."""
        self._buffer += data
        body = bytearray()
        while not self.done and self._step(body):
            pass
        self._taken += len(body)
        if self._most is not None and self._taken > self._most:
            raise AnswerError(f"the daemon's answer has more than {self._most} bytes")
        return bytes(body)

    def end(self) -> None:
        """Takes in that the connection has ended. ConnectionLostError: the answer is not whole."""
        if not self.done and (self.head is None or self._chunked or self._left is not None):
            raise ConnectionLostError("the daemon closed the connection before its answer was whole")
        self.done = True

    def _step(self, body: bytearray) -> bool:
        """Takes the next part of the buffer. Returns whether there may be another one."""
        if self.head is None:
            return self._take_head()
        if self._chunked and not self._in_chunk:
            return self._take_trailer() if self._in_trailer else self._take_size()
        return self._take_body(body)

    def _take_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, MOST_HEAD_BYTES)
        if end < 0:
            self._check_beginning()
            if len(self._buffer) >= MOST_HEAD_BYTES:
                raise AnswerError(f"the head of the daemon's answer has more than {MOST_HEAD_BYTES} bytes")
            return False
        text = bytes(self._buffer[: end + 4])
        del self._buffer[: end + 4]
        head = _parse_head(text)
        if head.status < _SUCCESS:
            self._interim += 1
            if self._interim > _MOST_INTERIM or head.status == http.client.SWITCHING_PROTOCOLS:
                raise AnswerError("the daemon's answer begins with too many interim ones")
            return True
        self.head = head
        self._begin_body(head)
        return not self.done

    def _check_beginning(self) -> None:
        """Refuses at once what will never be HTTP, so that nobody waits for the rest of it."""
        beginning = bytes(self._buffer[:7])
        if not b"HTTP/1.".startswith(beginning):
            raise AnswerError(f"the daemon's answer is no HTTP: it begins with {_shown(beginning)}")

    def _begin_body(self, head: Head) -> None:
        if _REDIRECTS <= head.status < _ERRORS and head.status != _NOT_MODIFIED:
            raise AnswerError(f"the answer is a redirect (status {head.status}); redirects are not followed")
        coding = head.headers.get("transfer-encoding")
        length = head.headers.get("content-length")
        if head.status in {_NO_CONTENT, _NOT_MODIFIED}:
            self.done = True
        elif coding is not None:
            if coding.strip().lower() != "chunked" or length is not None:
                raise AnswerError(f"the body of the daemon's answer is coded as {_shown(coding.encode())}")
            self._chunked = True
        elif length is not None:
            if not re.fullmatch(r"\d{1,15}", length):
                raise AnswerError(f"the daemon's answer has {_shown(length.encode())} bytes")
            self._left = int(length)
            if self._most is not None and self._left > self._most:
                raise AnswerError(f"the daemon's answer has more than {self._most} bytes")
            self.done = self._left == 0

    def _take_line(self, most: int) -> bytes | None:
        """Removes and returns the next line; None if it is not whole."""
        end = self._buffer.find(b"\n", 0, most)
        if end < 0:
            if len(self._buffer) >= most:
                raise AnswerError(f"a line of the daemon's answer has more than {most} bytes")
            return None
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        return line

    def _take_size(self) -> bool:
        line = self._take_line(_MOST_SIZE_LINE_BYTES)
        if line is None:
            return False
        found = _SIZE_LINE.fullmatch(line)
        if found is None:
            raise AnswerError(f"the daemon's answer has a chunk of {_shown(line)} bytes")
        self._left = int(found[1], 16)
        self._in_trailer = self._left == 0
        self._in_chunk = not self._in_trailer
        return True

    def _take_trailer(self) -> bool:
        line = self._take_line(MOST_HEAD_BYTES)
        self.done = line == b""
        return line is not None

    def _take_body(self, body: bytearray) -> bool:
        taken = len(self._buffer) if self._left is None else min(self._left, len(self._buffer))
        body += self._buffer[:taken]
        del self._buffer[:taken]
        if self._left is None:
            return False
        self._left -= taken
        if self._left > 0:
            return False
        if not self._chunked:
            self.done = True
            return False
        return self._take_end_of_chunk()

    def _take_end_of_chunk(self) -> bool:
        if not b"\r\n".startswith(self._buffer[:2]):
            raise AnswerError("a chunk of the daemon's answer is longer than it says")
        if len(self._buffer) < len(b"\r\n"):
            return False
        del self._buffer[:2]
        self._in_chunk = False
        return True


def _parse_head(text: bytes) -> Head:
    """Returns the head. AnswerError: it is none."""
    first, _, rest = text.partition(b"\r\n")
    found = _STATUS_LINE.fullmatch(first)
    if found is None:
        raise AnswerError(f"the daemon's answer is no HTTP: it begins with {_shown(first)}")
    try:
        message = http.client.parse_headers(io.BytesIO(rest))
    except http.client.HTTPException as error:
        raise AnswerError(f"the daemon's answer is no HTTP: {clean(str(error))}") from error
    headers: dict[str, str] = {}
    for name, value in message.items():
        if name.lower() in headers and name.lower() in {"content-length", "transfer-encoding"}:
            raise AnswerError(f"the daemon's answer has two headers {name}")
        headers[name.lower()] = str(value)
    return Head(int(found[1]), headers)


def _shown(text: bytes) -> str:
    return repr(clean(text[:_MOST_SHOWN].decode(errors="replace")))
