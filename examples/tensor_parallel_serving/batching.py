"""Which tokens a step computes with: requests join and leave a batch between steps (continuous batching)."""

from __future__ import annotations

import collections
import dataclasses
import threading


@dataclasses.dataclass
class Request:
    """Tokens to continue, and what has become of them. Times are monotonic seconds."""

    prompt: list[int]
    wanted: int
    arrived: float
    answer: list[int] = dataclasses.field(default_factory=list)
    # When each token of the answer came.
    times: list[float] = dataclasses.field(default_factory=list)
    done: threading.Event = dataclasses.field(default_factory=threading.Event)

    def text(self) -> list[int]:
        """Returns the prompt, and what has been generated."""
        return self.prompt + self.answer


@dataclasses.dataclass
class Row:
    """One token of a step: of the sequence in a slot, at a position."""

    slot: int
    position: int
    token: int


@dataclasses.dataclass
class Sequence:
    """A request in a slot. The cache has keys and values of its first `cached` tokens."""

    request: Request
    slot: int
    cached: int = 0

    def rows(self, room: int) -> list[Row]:
        """Returns the tokens that the cache does not have yet, but at most so many."""
        text = self.request.text()
        end = min(len(text), self.cached + room)
        return [Row(self.slot, position, text[position]) for position in range(self.cached, end)]


class Schedule:
    """Gives requests slots in the order of their arrival, and plans steps."""

    def __init__(self, slots: int, rows: int) -> None:
        """Plans steps of at most so many rows, at least one for each slot."""
        self.free = list(range(slots))
        self.rows = rows
        self.waiting: collections.deque[Request] = collections.deque()
        self.running: list[Sequence] = []
        self.planned: list[tuple[Sequence, int]] = []

    def add(self, request: Request) -> None:
        """Takes a request, which waits for a slot."""
        self.waiting.append(request)

    def plan(self) -> list[Row]:
        """Returns the rows of the next step. Sequences that need one row only come before those with prompts left."""
        while self.free and self.waiting:
            self.running.append(Sequence(self.waiting.popleft(), self.free.pop()))
        self.planned = []
        step: list[Row] = []
        for sequence in sorted(self.running, key=lambda one: len(one.request.text()) - one.cached > 1):
            rows = sequence.rows(self.rows - len(step))
            self.planned.append((sequence, len(rows)))
            step += rows
        return step

    def accept(self, best: list[int], now: float) -> None:
        """Takes the best next token of each planned row. Only those at the ends of sequences continue them."""
        end = 0
        for sequence, count in self.planned:
            end += count
            sequence.cached += count
            if sequence.cached == len(sequence.request.text()):
                sequence.request.answer.append(best[end - 1])
                sequence.request.times.append(now)
            if len(sequence.request.answer) == sequence.request.wanted:
                self.running.remove(sequence)
                self.free.append(sequence.slot)
                sequence.request.done.set()
