"""A laboratory whose hosts have places for ranks of elastic jobs. It does what a provider does for them: it begins
jobs, sees where their ranks are and how fast they get on, asks the policy what to offer (decide_elastic), makes the
offers over the HTTP interface of the daemons, and starts newcomers on accepted places as a launcher does."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import time
import typing

from experiments.laboratory import Job, Laboratory, LaboratoryError, Line, RunningJob

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "plugins" / "python"))

import harmonaize  # noqa: E402

if typing.TYPE_CHECKING:
    from harmonaize.client import Client
    from harmonaize.offers import Offer

TRAINER = ROOT / "perf" / "opportunities" / "elastic_trainer.py"
# Seconds for which offers may be answered, and for which places are kept: trainers answer between two steps.
OFFER_SECONDS = 30.0
# Seconds over which steps are timed: the daemon's own median of a step is over more steps than that of the exchange.
WINDOW_SECONDS = 4.0
# What a change costs a trainer of the laboratory, in seconds, as the policy is told: new interpreters start in about
# one second beside the ranks, which stand still for less.
CHANGE_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class ElasticJob:
    """A job that is to run. `words` are elastic_trainer.py's. A job with `least` equal to `most` is static."""

    name: str
    number: int
    user: int
    words: tuple[str, ...]
    ranks: int  # With which it begins, if there are so many places.
    least: int
    most: int
    goal: str = "fastest"
    samples: float = 0  # Until it is done; 0: not known.
    requirements: str = ""
    arrives: float = 0

    @property
    def is_elastic(self) -> bool:
        """Whether it is made offers."""
        return self.least < self.most


class Policy:
    """The policy, as a process that is asked again and again."""

    def __init__(self, programs: pathlib.Path, looks: int, settle: float) -> None:
        self._process = subprocess.Popen(
            [str(programs / "decide_elastic"), "--looks", str(looks), "--settle", str(settle)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def decide(self, world: dict[str, typing.Any]) -> list[dict[str, typing.Any]]:
        """Returns the offers to make."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(world) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise LaboratoryError("decide_elastic has ended")
        return typing.cast("list[dict[str, typing.Any]]", json.loads(answer))

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)


class Running:
    """A job that runs: its processes, and what was seen of it."""

    def __init__(self, job: ElasticJob, hosts: list[int], first: RunningJob) -> None:
        self.job = job
        self.began = time.monotonic()
        self.starts: list[tuple[int, RunningJob]] = []  # Newcomers, by the place of their host.
        self.first = first
        self.initial = hosts  # Ranks by host with which it begins.
        self.ranks: list[list[int]] = []  # Numbers of ranks by host, as the daemons tell; empty: not known yet.
        self.seen: dict[int, dict[str, float]] = {}  # By number of ranks, the newest last.
        self.steps: list[tuple[float, int, int]] = []  # When which step was done, by how many ranks.
        self.offers: list[tuple[int, Offer]] = []  # Under way, by the place of their host.
        self.quiet_until = 0.0
        self.samples = 0.0

    @property
    def size(self) -> int:
        """Number of ranks."""
        return sum(len(ranks) for ranks in self.ranks)

    def here(self, host: int) -> int:
        """Number of ranks on a host."""
        return len(self.ranks[host]) if self.ranks else self.initial[host]

    def lines(self) -> list[Line]:
        """What all its ranks have written, in the order of time."""
        every = [line for one in (self.first, *(start for _, start in self.starts)) for line in one.lines()]
        return sorted(every, key=lambda line: float(line["unix_seconds"]))

    def end(self) -> Line | None:
        """Returns its last word; None: it goes on. An error if it has failed."""
        ends = [line for line in self.lines() if line["event"] == "end"]
        if ends:
            return ends[-1]
        for one in (self.first, *(start for _, start in self.starts)):
            one.check()
        return None


class ElasticCluster:
    """The hosts' places, and the jobs on them."""

    def __init__(self, programs: pathlib.Path, laboratory: Laboratory, hosts: typing.Sequence[str], places: int,
                 say: typing.Callable[[str], None], *, looks: int = 3, settle: float = 10) -> None:
        self._programs = programs
        self._laboratory = laboratory
        self._hosts = list(hosts)
        self._places = places
        self._say = say
        self._policy = Policy(programs, looks, settle)
        self._tickets = laboratory.folder / "tickets"
        self._tickets.mkdir()
        self._tickets.chmod(0o1777)
        self._clients: list[Client] = [
            harmonaize.connect(laboratory.socket(host), as_operator=True) for host in self._hosts]
        self._offered: dict[str, tuple[Running, int]] = {}
        self.running: list[Running] = []
        self.offers = 0

    def close(self) -> None:
        """Ends the policy; the laboratory ends the jobs."""
        self._policy.close()

    def free(self) -> list[int]:
        """Returns the free places by host. Places that were offered are none, and so are those of ranks that start."""
        free = [self._places - sum(one.here(host) for one in self.running) for host in range(len(self._hosts))]
        for one in self.running:
            for host, offer in one.offers:
                if offer.kind == "grow":
                    free[host] -= offer.terms.ranks
        return free

    def begin(self, job: ElasticJob, ranks: int) -> Running:
        """Begins a job on free places, on those hosts first that have most of them."""
        free = self.free()
        initial = [0] * len(self._hosts)
        for _ in range(ranks):
            host = max(range(len(free)), key=lambda place: free[place])
            initial[host] += 1
            free[host] -= 1
        where = ",".join(f"{name}:{count}" for name, count in zip(self._hosts, initial) if count)
        running = Running(job, initial, self._start(job, job.name, where))
        self.running.append(running)
        return running

    def _start(self, job: ElasticJob, name: str, where: str, ticket: str = "") -> RunningJob:
        words = (sys.executable, str(TRAINER), *job.words, "--tickets", str(self._tickets))
        environment = {"HARMONAIZE_HOME": str(self._programs.parent), "PYTHONPATH": str(ROOT / "plugins" / "python"),
                       "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HARMONAIZE_JOB": job.name}
        if ticket:
            environment["HARMONAIZE_TICKET_FILE"] = ticket
            # A newcomer's number comes with its place.
            words = ("-u", "RANK", "-u", "WORLD_SIZE", *words)
        return self._laboratory.start(Job(name, words, where, job.user, "" if ticket else job.requirements,
                                          "/usr/bin/env", environment))

    def look(self, waiting: typing.Sequence[ElasticJob], *, makes_offers: bool) -> list[tuple[Running, Line]]:
        """Sees what has become of jobs and offers, and makes new ones. Returns the jobs that have ended."""
        ended = [(one, end) for one in self.running if (end := one.end()) is not None]
        self.running = [one for one in self.running if one not in [done for done, _ in ended]]
        if makes_offers:
            for one in self.running:
                self._see(one)
            self._start_newcomers()
            self._make_offers(waiting)
        return ended

    def _see(self, running: Running) -> None:
        """Takes in where a job's ranks are, how fast it gets on, and what it has answered."""
        with contextlib.suppress(harmonaize.HarmonaizeError):
            running.offers = [(host, self._clients[host].offer(offer)) for host, offer in running.offers]
        for _, offer in running.offers:
            if offer.state in ("declined", "expired", "broken"):
                self._say(f"{running.job.name}: the offer to {offer.kind} is {offer.state}: {offer.reason}")
                running.quiet_until = time.time() + 30
        was_asked = bool(running.offers)
        running.offers = [(host, offer) for host, offer in running.offers if not offer.ended]
        if was_asked and not running.offers:
            running.began = time.monotonic()  # Its steps are timed anew.
        with contextlib.suppress(harmonaize.HarmonaizeError):
            ranks = [self._ranks_at(host, running.job.name) for host in range(len(self._hosts))]
            # While ranks come or go the hosts may disagree.
            if sorted(number for here in ranks for number in here) == list(range(sum(map(len, ranks)))):
                running.ranks = ranks if any(ranks) else running.ranks
        self._measure(running)

    def _ranks_at(self, host: int, job: str) -> list[int]:
        try:
            found = self._clients[host].ranks(job)
        except harmonaize.ProblemError:
            return []
        alive = [one for one in found if not any(rank.left for rank in one.ranks)]
        return sorted(rank.rank for rank in alive[-1].ranks if rank.here) if alive else []

    def _measure(self, running: Running) -> None:
        """Takes the times of steps from the daemon to which the job reports: the one of its rank 0."""
        leader = next((host for host, ranks in enumerate(running.ranks) if 0 in ranks), None)
        if leader is None or time.monotonic() - running.began < 2:
            return
        with contextlib.suppress(harmonaize.HarmonaizeError):
            progress = self._clients[leader].progress(running.job.name)
            running.samples = progress.samples or running.samples
            if progress.step is None or progress.exchange_seconds is None or not progress.batch_size:
                return
            now = time.monotonic()
            running.steps.append((now, progress.step, running.size))
            running.steps = [one for one in running.steps if one[0] > now - WINDOW_SECONDS and one[2] == running.size]
            since, first, _ = running.steps[0]
            if now - since < WINDOW_SECONDS / 2 or progress.step == first:
                return
            running.seen.pop(running.size, None)
            running.seen[running.size] = {
                "ranks": running.size, "samples": progress.batch_size,
                "step_seconds": (now - since) / (progress.step - first),
                "exchange_seconds": progress.exchange_seconds}

    def _start_newcomers(self) -> None:
        """Starts ranks on places that a job has accepted, once it has made a ticket."""
        for file in sorted(self._tickets.glob("*.ticket")):
            identity = file.stem
            if identity not in self._offered:
                continue
            running, host = self._offered.pop(identity)
            ranks = next((offer.terms.ranks for _, offer in running.offers if offer.id == identity), 0)
            if ranks:
                name = f"{running.job.name}-{len(running.starts)}"
                where = f"{self._hosts[host]}:{ranks}"
                running.starts.append((host, self._start(running.job, name, where, str(file))))

    def _make_offers(self, waiting: typing.Sequence[ElasticJob]) -> None:
        elastic = [one for one in self.running if one.job.is_elastic and one.seen and one.ranks]
        coming = [sum(offer.terms.ranks for one in self.running for place, offer in one.offers
                      if place == host and offer.kind == "reclaim") for host in range(len(self._hosts))]
        world = {
            "now": time.time(),
            "hosts": [{"free_places": max(0, free), "coming_places": coming[host]}
                      for host, free in enumerate(self.free())],
            # Daemons make offers for jobs that have ranks on their hosts.
            "jobs": [{"id": one.job.number, "ranks": [len(ranks) for ranks in one.ranks],
                      "room": [self._places if ranks else 0 for ranks in one.ranks], "least": one.job.least,
                      "most": one.job.most, "goal": one.job.goal, "seen": list(one.seen.values()),
                      "samples_left": max(0.0, one.job.samples - one.samples) if one.job.samples else 0,
                      "change_seconds": CHANGE_SECONDS, "quiet_until": one.quiet_until,
                      "is_asked": bool(one.offers)} for one in elastic],
            "waiting": [{"id": job.number, "ranks": job.least} for job in waiting]}
        by_number = {one.job.number: one for one in elastic}
        for offer in self._policy.decide(world):
            self._make(by_number[offer["job"]], offer)

    def _make(self, running: Running, offer: dict[str, typing.Any]) -> None:
        """Makes one offer at its host."""
        host, ranks = offer["host"], offer["ranks"]
        order: dict[str, typing.Any] = {"ranks": ranks, "within_seconds": OFFER_SECONDS,
                                        "due_within_seconds": 2 * OFFER_SECONDS, "purpose": offer["why"]}
        if offer["kind"] == "reclaim":
            order["which"] = running.ranks[host][-ranks:]
        try:
            made = self._clients[host].make_offer(running.job.name, offer["kind"], **order)
        except harmonaize.HarmonaizeError as error:
            self._say(f"{running.job.name}: no offer to {offer['kind']}: {error}")
            return
        self.offers += 1
        self._say(f"{running.job.name} of {running.size}: {offer['kind']} by {ranks} at {self._hosts[host]}: "
                  f"{offer['why']} (confidence {offer['confidence']:.2f})")
        running.offers.append((host, made))
        self._offered[made.id] = (running, host)


def why_not_elastic(programs: pathlib.Path) -> str:
    """Returns why no elastic jobs can run here; "" if they can."""
    if not (programs / "decide_elastic").exists():
        return f"there is no {programs / 'decide_elastic'}: build it"
    # Jobs are other users', who may not reach the interpreter of this one. The shell has none of root's rights any more,
    # which setpriv itself still has.
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c",
                           'exec "$0" -c "import numpy"', sys.executable],
                          check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return "" if done.returncode == 0 else f"other users cannot run {sys.executable}, or it has no NumPy"
