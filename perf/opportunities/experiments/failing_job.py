"""A job that is struck by failures and started again at once, and what became of its time."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import random
import statistics
import time
import typing

from experiments.laboratory import Job, Laboratory, LaboratoryError, Line, RunningJob, wait_for

# Steps after a save that it may slow down: its copy goes to a peer meanwhile.
SLOWED_STEPS = 5
# Seconds between two looks at whether the job has ended: a small part of what a start takes.
LOOK_SECONDS = 0.02
# Starts in a row that may fail: the daemon of a host that has just come back may not be reached yet.
MOST_FAILED_STARTS = 5


@dataclasses.dataclass(frozen=True)
class Failure:
    """A failure `at` seconds after the begin: of the host, its daemon included, or of its ranks alone."""

    at: float
    host: str
    is_host: bool


def make_failures(seed: int, mean_seconds: float, seconds: float, hosts: typing.Sequence[str],
                  host_part: float) -> list[Failure]:
    """Returns failures that come independently of each other, the earliest first."""
    drawn = random.Random(seed)
    failures: list[Failure] = []
    at = drawn.expovariate(1 / mean_seconds)
    while at < seconds:
        failures.append(Failure(at, drawn.choice(hosts), drawn.random() < host_part))
        at += drawn.expovariate(1 / mean_seconds)
    return failures


class FailingJob:
    """Starts the job, and starts it again whenever it has ended."""

    def __init__(self, laboratory: Laboratory, job: Job) -> None:
        self._laboratory = laboratory
        self._job = job
        self._before: list[Line] = []
        self._running: RunningJob = laboratory.start(job)
        self._failed_starts = 0
        self.struck: list[float] = []  # Unix times.

    def lines(self) -> list[Line]:
        """Returns what all runs have written so far."""
        return self._before + self._running.lines()

    def first_save(self) -> float | None:
        """Returns the Unix time at which it had saved for the first time."""
        return next((float(line["unix_seconds"]) for line in self.lines() if line["event"] == "saved"), None)

    def work_until(self, unix_seconds: float) -> None:
        """Waits, and starts the job when it has ended."""
        while (left := unix_seconds - time.time()) > 0:
            if self._running.is_over():
                self._start_again()
            time.sleep(min(left, LOOK_SECONDS))

    def strike(self, failure: Failure) -> None:
        """Has a failure hit the job, if it works. A host that was lost comes back."""
        if self._running.is_over() or not any(line["event"] == "step" for line in self._running.lines()):
            return
        self.struck.append(time.time())
        if failure.is_host:
            self._laboratory.disturb("kill", failure.host, "daemon")
        self._laboratory.disturb("kill", failure.host, "rank")
        wait_for("the launcher has seen the failure", self._running.is_over)
        if failure.is_host:
            self._laboratory.serve(failure.host)
        self._start_again()

    def stop(self) -> None:
        """Ends it for good."""
        self._running.stop()

    def _start_again(self) -> None:
        if not self.struck:
            self._running.check()
        lines = self._running.lines()
        has_come_up = any(line["event"] == "restored" for line in lines)
        self._failed_starts = 0 if has_come_up else self._failed_starts + 1
        if self._failed_starts > MOST_FAILED_STARTS:
            raise LaboratoryError(f"{self._job.name} does not come up: {self._running.words()}")
        self._before += lines
        self._running = self._laboratory.start(self._job)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of the time from a begin to an end. Times are in seconds, the means of all that there were."""

    goodput: float  # Part of the time in which work was done that was kept.
    step: float
    saves: int
    stall: float
    cost: float  # Of a save: its stall, and what the steps after it take longer.
    restart: float  # From a failure until the state is restored.
    lost: float  # Work that a failure has cost.
    failures: tuple[float, ...]  # When they struck, from the begin.


def outcome_of(lines: list[Line], struck: typing.Sequence[float], begin: float, end: float) -> Outcome:
    """Reckons it from what rank 0 has written. LaboratoryError: a state was restored that is not whole."""
    steps = [line for line in lines if line["event"] == "step"]
    step = statistics.median(later["unix_seconds"] - earlier["unix_seconds"]
                             for earlier, later in itertools.pairwise(lines)
                             if earlier["event"] == later["event"] == "step")
    restored = [line for line in lines if line["event"] == "restored"]
    if not all(line["is_whole"] for line in restored):
        raise LaboratoryError("a state was restored that is not whole")
    saves = [line for line in lines if line["event"] == "saved" and begin <= line["unix_seconds"] <= end]
    stall = _mean([line["stall_seconds"] for line in saves])
    costs = [cost for place, line in enumerate(lines) if line in saves
             and (cost := _cost_of_save(lines, place, step)) is not None]
    returns = [next(line for line in restored if line["unix_seconds"] > at) for at in struck]
    restarts = [line["unix_seconds"] - at for line, at in zip(returns, struck)]
    lost = [(_step_at(steps, at) - line["step"]) * step for line, at in zip(returns, struck)]
    kept = _step_at(steps, end) - _step_at(steps, begin)
    return Outcome(goodput=kept * step / (end - begin), step=step, saves=len(saves),
                   stall=stall, cost=_mean(costs) if costs else stall, restart=_mean(restarts), lost=_mean(lost),
                   failures=tuple(at - begin for at in struck))


def _cost_of_save(lines: list[Line], place: int, step: float) -> float | None:
    """Returns for how long the save that is told there has kept the job; None: something else came soon after."""
    around = lines[place - 1 : place] + lines[place + 1 : place + 1 + SLOWED_STEPS]
    if len(around) <= SLOWED_STEPS or any(line["event"] != "step" for line in around):
        return None
    return float(around[-1]["unix_seconds"] - around[0]["unix_seconds"] - SLOWED_STEPS * step)


def _step_at(steps: typing.Sequence[Line], unix_seconds: float) -> int:
    """Returns the step that was done last."""
    place = bisect.bisect_right([line["unix_seconds"] for line in steps], unix_seconds)
    return int(steps[place - 1]["step"])


def _mean(values: typing.Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0
