"""Where requests come from: a generator with a seed, or HTTP on this host."""

from __future__ import annotations

import functools
import http
import http.server
import json
import queue
import random
import threading
import time
import typing

from batching import Request
from decoder import VOCABULARY

MAX_BODY_BYTES = 65536

# How long a client may take to send its request, in seconds. The server's end waits for it.
CLIENT_SECONDS = 2.0

# How often the server looks whether it shall end, in seconds.
POLL_SECONDS = 0.1


class Source(typing.Protocol):
    """Where requests come from."""

    def take(self) -> list[Request]:
        """Returns the requests that have arrived since the last call."""

    def wait(self, seconds: float) -> bool:
        """Waits for a request, but not longer. Returns whether there is one."""

    def ended(self) -> bool:
        """Returns whether there will be none any more."""


class Generated:
    """Requests that arrive at random times, at a rate that does not depend on the answers (an open loop)."""

    def __init__(self, seed: int, count: int, rate: float, wanted: int, longest_prompt: int) -> None:
        """Draws all requests. The times begin now."""
        dice = random.Random(seed)  # noqa: S311
        at = time.monotonic()
        self.all: list[Request] = []
        for _ in range(count):
            at += dice.expovariate(rate)
            prompt = [dice.randrange(VOCABULARY) for _ in range(dice.randint(1, longest_prompt))]
            self.all.append(Request(prompt, wanted, at))
        self.taken = 0

    def take(self) -> list[Request]:
        """Returns the requests whose time has come."""
        first, now = self.taken, time.monotonic()
        while not self.ended() and self.all[self.taken].arrived <= now:
            self.taken += 1
        return self.all[first : self.taken]

    def wait(self, seconds: float) -> bool:
        """Waits for the next request's time."""
        left = self.all[self.taken].arrived - time.monotonic()
        time.sleep(max(0.0, min(left, seconds)))
        return left <= seconds

    def ended(self) -> bool:
        """Returns whether all have come."""
        return self.taken == len(self.all)


class Listening:
    """Requests that come by HTTP, until it is closed. Each connection has a thread, which waits for the answer."""

    def __init__(self, port: int, context: int) -> None:
        """Listens on the loopback interface. A prompt and its answer may have `context` tokens."""
        self.context = context
        # None only wakes who waits.
        self.came: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.closed = False
        self.next: Request | None = None
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Handler, self))
        # The threads are waited for at the end, so that each answer is sent.
        self.server.daemon_threads = False
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=[POLL_SECONDS], daemon=True).start()

    def generate(self, prompt: list[int], wanted: int) -> Request | None:
        """Returns the request with its answer, or None where the server is being closed."""
        request = Request(prompt, wanted, time.monotonic())
        with self.lock:
            if self.closed:
                return None
            self.came.put(request)
        request.done.wait()
        return request

    def close(self) -> None:
        """Takes no more requests. Those that came are answered. A signal handler may call this."""
        with self.lock:
            self.closed = True
        self.came.put(None)

    def leave(self) -> None:
        """Ends the server, when all answers are sent."""
        self.server.shutdown()
        self.server.server_close()

    def take(self) -> list[Request]:
        """Returns the requests that came."""
        found = [] if self.next is None else [self.next]
        self.next = None
        while not self.came.empty():
            request = self.came.get()
            if request is not None:
                found.append(request)
        return found

    def wait(self, seconds: float) -> bool:
        """Waits for a request."""
        try:
            self.next = self.came.get(timeout=seconds)
        except queue.Empty:
            return False
        return self.next is not None

    def ended(self) -> bool:
        """Returns whether it was closed, and all requests were taken."""
        return self.closed and self.came.empty() and self.next is None


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers POST /generate with {"prompt": text, "tokens": how many}."""

    timeout = CLIENT_SECONDS

    def __init__(self, source: Listening, *connection: typing.Any) -> None:
        """Answers one connection."""
        self.source = source
        super().__init__(*connection)

    def do_POST(self) -> None:
        """Waits for the answer, and sends it."""
        if self.path != "/generate":
            self.say(http.HTTPStatus.NOT_FOUND, {"error": "the only path is /generate"})
            return
        prompt, wanted, wrong = self.asked()
        if wrong:
            self.say(http.HTTPStatus.BAD_REQUEST, {"error": wrong})
            return
        request = self.source.generate(prompt, wanted)
        if request is None:
            self.say(http.HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the server ends"})
            return
        self.say(
            http.HTTPStatus.OK,
            {
                "tokens": request.answer,
                "first_token_milliseconds": round(1000 * (request.times[0] - request.arrived), 3),
                "milliseconds": round(1000 * (request.times[-1] - request.arrived), 3),
            },
        )

    def asked(self) -> tuple[list[int], int, str]:
        """Returns the prompt's tokens and how many to generate, or what is wrong."""
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > MAX_BODY_BYTES:
            return [], 0, f"a request has a Content-Length of at most {MAX_BODY_BYTES}"
        try:
            body = json.loads(self.rfile.read(int(size)))
            prompt, wanted = list(body["prompt"].encode()), body["tokens"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
            return [], 0, 'a request is {"prompt": text, "tokens": number}'
        if not prompt or type(wanted) is not int or not 1 <= wanted <= self.source.context - len(prompt):
            return (
                [],
                0,
                f"a prompt has at least 1 token, its answer too, and both at most {self.source.context} together",
            )
        return prompt, wanted, ""

    def say(self, status: http.HTTPStatus, what: dict[str, object]) -> None:
        """Sends an answer."""
        body = json.dumps(what).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing of each request."""
