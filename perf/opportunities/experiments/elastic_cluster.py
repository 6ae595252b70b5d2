"""A laboratory whose hosts have places for ranks of elastic jobs. It does what a scheduler does: it begins jobs, has
their launchers join on other hosts, and tells the daemons which jobs wait. The daemons themselves decide on sizes."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import subprocess
import sys
import typing

from experiments.laboratory import Job, Laboratory, Line, RunningJob, as_user

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "plugins" / "python"))

import harmonaize  # noqa: E402

if typing.TYPE_CHECKING:
    from harmonaize.client import Client

TRAINER = ROOT / "perf" / "opportunities" / "elastic_trainer.py"
# What the provider's configuration says of sizes. Jobs of the laboratory take a minute, so looks are more frequent than
# by default, and the times after them shorter. Newcomers need some seconds to start beside all the others.
SIZING = """\
[elastic]
enabled = true
places = {places}
look_every_seconds = {look_every_seconds}
answer_within_seconds = 10
notice_seconds = 20
settle_seconds = 10
"""
# Seconds for which the daemons believe that a job waits. They are told again with each look.
WAITING_SECONDS = 10


@dataclasses.dataclass(frozen=True)
class ElasticJob:
    """A job that is to run. `words` are elastic_trainer.py's. A job with `least` equal to `most` is static."""

    name: str
    user: int
    words: tuple[str, ...]
    ranks: int  # With which it begins, if there are so many places.
    least: int
    most: int
    requirements: str = ""
    arrives: float = 0

    @property
    def is_elastic(self) -> bool:
        """Whether its size may change."""
        return self.least < self.most


class Running:
    """A job that runs: its launchers, and where it began."""

    def __init__(self, job: ElasticJob, initial: list[int]) -> None:
        self.job = job
        self.initial = initial  # Ranks by host with which it begins.
        self.launchers: dict[str, RunningJob] = {}  # By host; "": that of the ranks of several hosts.
        self.is_there = False  # The controller knows of its ranks.
        self.ticket: pathlib.Path | None = None

    def lines(self) -> list[Line]:
        """What all its ranks have written, in the order of time."""
        every = [line for one in self.launchers.values() for line in one.lines()]
        return sorted(every, key=lambda line: float(line["unix_seconds"]))

    def is_up(self) -> bool:
        """Returns whether its ranks have come together."""
        return self.is_there or bool(self.lines())

    def end(self) -> Line | None:
        """Returns its last word; None: it goes on. An error if it has failed."""
        ends = [line for line in self.lines() if line["event"] == "end"]
        if ends:
            return ends[-1]
        for one in self.launchers.values():
            one.check()
        return None


class ElasticCluster:
    """The hosts' places, and the jobs on them. The first host's daemon is the controller."""

    def __init__(self, programs: pathlib.Path, laboratory: Laboratory, hosts: typing.Sequence[str], places: int,
                 say: typing.Callable[[str], None], *, decides: bool) -> None:
        """`decides`: the daemons have SIZING. Without it no elastic job may begin."""
        self._programs = programs
        self._laboratory = laboratory
        self._hosts = list(hosts)
        self._places = places
        self._say = say
        self._decides = decides
        self._tickets = laboratory.folder / "tickets"
        self._tickets.mkdir()
        self._tickets.chmod(0o1777)
        self._clients: list[Client] = [
            harmonaize.connect(laboratory.socket(host), as_operator=True) for host in self._hosts]
        self._known: dict[str, typing.Any] = {"hosts": [], "jobs": [], "decisions": []}
        self._decided_at = ""
        self.running: list[Running] = []
        self.offers = 0
        self.most_taken = 0  # Ranks of elastic jobs on one host, at any look.

    def free(self) -> list[int]:
        """Returns the free places by host, as the controller knows them. Those of ranks that start are none."""
        if self._decides:
            told = {one["host"]: one["free"] for one in self._known["hosts"]}
            free = [told.get(host, 0) for host in self._hosts]
        else:
            free = [self._places] * len(self._hosts)
        for one in self.running:
            if not (self._decides and one.is_there):
                free = [left - ranks for left, ranks in zip(free, one.initial)]
        return free

    def begin(self, job: ElasticJob, initial: list[int]) -> Running:
        """Begins a job with these ranks by host. An elastic one that begins on one host is its launcher's there."""
        running = Running(job, initial)
        where = [(host, ranks) for host, ranks in zip(self._hosts, initial) if ranks]
        if job.is_elastic and len(where) == 1:
            host, ranks = where[0]
            running.launchers[host] = self._launch(job, host, "-n", str(ranks))
        else:
            hosts = ",".join(f"{host}:{ranks}" for host, ranks in where)
            running.launchers[""] = self._laboratory.start(
                Job(job.name, (str(TRAINER), *job.words), hosts, job.user, job.requirements, sys.executable,
                    self._environment()))
        self.running.append(running)
        return running

    def _launch(self, job: ElasticJob, host: str, *options: str) -> RunningJob:
        """Starts the job's launcher at a host, which is its agent there."""
        words = ("run", "--elastic", f"{job.least}:{job.most}", "--places", str(self._places), "--name", job.name,
                 "--kind", "training", "--no-prefix", "--no-preload", *options, "--", sys.executable, str(TRAINER),
                 *job.words)
        return self._laboratory.start_at(host, Job(f"{job.name}-{host}", words, host, job.user, job.requirements,
                                                   "harmonaize", self._environment()))

    def _environment(self) -> dict[str, str]:
        return {"HARMONAIZE_HOME": str(self._programs.parent), "PYTHONPATH": str(ROOT / "plugins" / "python"),
                "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def look(self, waiting: typing.Sequence[ElasticJob]) -> list[tuple[Running, Line]]:
        """Sees what has become of jobs, has elastic ones join on all hosts, and tells which jobs wait. Returns the jobs
        that have ended."""
        ended = [(one, end) for one in self.running if (end := one.end()) is not None]
        self.running = [one for one in self.running if one not in [done for done, _ in ended]]
        if self._decides:
            for one in self.running:
                if one.job.is_elastic:
                    self._join(one)
            self._tell_waiting(waiting)
            self._learn()
        return ended

    def _join(self, running: Running) -> None:
        """Has the job's launchers join on hosts where none runs, by a ticket that its user makes."""
        missing = [host for host in self._hosts if host not in running.launchers]
        if not missing:
            return
        if running.ticket is None:
            file = self._tickets / f"{running.job.name}.ticket"
            first = self._hosts[next(host for host, ranks in enumerate(running.initial) if ranks)]
            done = subprocess.run(
                [*as_user(running.job.user), str(self._programs / "harmonaize"), "ticket", "make", running.job.name,
                 "--file", str(file)], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=dict(os.environ, HARMONAIZE_SOCKET=str(self._laboratory.socket(first))))
            if done.returncode != 0:
                return  # Its ranks have not come yet.
            running.ticket = file
        for host in missing:
            running.launchers[host] = self._launch(running.job, host, "--ticket", str(running.ticket))

    def _tell_waiting(self, waiting: typing.Sequence[ElasticJob]) -> None:
        """Tells the controller which jobs wait. The places of one that has begun are kept until its ranks have come,
        and not longer: others would be asked for as many again."""
        jobs = [{"name": one.job.name, "ranks": sum(one.initial)} for one in self.running if not one.is_up()]
        jobs += [{"name": job.name, "ranks": job.least} for job in waiting]
        self._clients[0].call("PUT", "/v1/elasticity/waiting", {"jobs": jobs, "for_seconds": WAITING_SECONDS})

    def _learn(self) -> None:
        """Learns what the controller knows and has decided."""
        self._known = self._clients[0].call("GET", "/v1/elasticity")
        taken = collections.Counter[str]()
        for job in self._known["jobs"]:
            taken.update({one["host"]: one["ranks"] for one in job["hosts"]})
        self.most_taken = max(self.most_taken, *taken.values(), 0)
        sizes = {one["name"]: one["ranks"] for one in self._known["jobs"]}
        for one in self.running:
            one.is_there = one.is_there or sizes.get(one.job.name, 0) > 0
        news = [one for one in self._known["decisions"] if one["time"] > self._decided_at]
        for decision in reversed(news):
            expected = decision["expected"] or {"confidence": 0}
            self._say(f"{decision['name']} of {sizes.get(decision['name'], 0)}: {decision['kind']} by "
                      f"{decision['ranks']} at {decision['host']}: {decision['why']} (confidence "
                      f"{expected['confidence']:.2f})")
            self._decided_at = decision["time"]
        self.offers += len(news)

    def fates(self) -> str:
        """Returns what has become of all offers, in words."""
        # A job's hosts have copies of each other's offers.
        offers = {one.id: f"{one.kind} {one.state}" for client in self._clients for one in client.offers()}
        states = collections.Counter(offers.values())
        return ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"


def why_not_elastic() -> str:
    """Returns why no elastic jobs can run here; "" if they can."""
    # Jobs are other users', who may not reach the interpreter of this one. The shell has none of root's rights any more,
    # which setpriv itself still has.
    done = subprocess.run([*as_user(65534), "sh", "-c", 'exec "$0" -c "import numpy"', sys.executable],
                          check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return "" if done.returncode == 0 else f"other users cannot run {sys.executable}, or it has no NumPy"
