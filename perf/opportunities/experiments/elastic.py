"""Several elastic trainings that share a few hosts: static sizes against sizes that follow offers."""

from __future__ import annotations

import random
import time
import typing

from experiments.elastic_cluster import SIZING, ElasticCluster, ElasticJob, why_not_elastic
from experiments.experiment import TRAINER, Settings
from experiments.laboratory import LaboratoryError, Line
from experiments.measure import LESS, MORE, Measures

HOSTS = ("host0", "host1")
PLACES = 4
BATCH, SAMPLE_MILLISECONDS = 64, 7
# What an exchange takes on the links of one-rack.toml beside one other job, roughly: only the lengths of jobs are drawn
# by it.
EXCHANGE_SECONDS = 0.03
MOST_SECONDS = 500.0
# Seconds between two looks of the daemons at the jobs, which take a minute.
LOOK_EVERY_SECONDS = 0.5
# Seconds between two looks of the scheduler: fewer, so that a job is off the list of those that wait before the daemons
# count its ranks.
SCHEDULER_SECONDS = 0.1


def trace(seed: int, jobs: int, *, are_elastic: bool) -> list[ElasticJob]:
    """Returns jobs of one, two and four ranks with lognormal lengths, which come at random and would fill the places
    to three quarters if their sizes were static."""
    drawn = random.Random(seed)
    every = []
    work = 0.0
    for number in range(jobs):
        ranks = drawn.choices((1, 2, 4), (3, 4, 3))[0]
        seconds = min(80.0, max(10.0, drawn.lognormvariate(3.2, 0.8)))
        step = BATCH * SAMPLE_MILLISECONDS * 1e-3 / ranks + (EXCHANGE_SECONDS if ranks > 1 else 0)
        samples = BATCH * round(seconds / step)
        work += ranks * seconds
        words = ("--seed", str(number + 1), "--batch", str(BATCH), "--sample-ms", str(SAMPLE_MILLISECONDS),
                 "--learning-rate", "0.02", "--samples", str(samples))
        every.append((ranks, words))
    span = work / (len(HOSTS) * PLACES) / 0.75
    arrivals = sorted(drawn.uniform(0, span) for _ in every)
    return [ElasticJob(f"job{number}", TRAINER + number, words, ranks, least=1 if are_elastic else ranks,
                       most=min(8, 4 * ranks) if are_elastic else ranks, arrives=arrivals[number])
            for number, (ranks, words) in enumerate(every)]


class Elastic:
    """A trace of trainings on eight places of two hosts."""

    opportunity = "O3"
    name = "elastic"
    words = ("Trainings in Python (harmonaize.elastic) of one, two and four ranks come to two hosts with four places "
             "each, links of 250 Mbit/s. Without: each has the ranks that it asks for, and one behind others begins "
             "before them where it fits. With: each begins on one host, with as many of them as there are places for; "
             "its launchers are its agents at both hosts, and the daemons offer it one rank to four times as many as "
             "it asks for.")

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs."""
        del settings
        return ("without", "with")

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Runs one trace, another one for each turn."""
        if reason := why_not_elastic():
            raise LaboratoryError(reason)
        is_elastic = arm == "with"
        jobs = trace(turn + 1, 3 if settings.quick else 8, are_elastic=is_elastic)
        sizing = SIZING.format(places=PLACES, look_every_seconds=LOOK_EVERY_SECONDS) if is_elastic else ""
        with settings.laboratory("one-rack.toml", hosts=",".join(HOSTS), controller=HOSTS[0],
                                 policy=sizing) as laboratory:
            cluster = ElasticCluster(settings.programs, laboratory, HOSTS, PLACES, settings.say, decides=is_elastic)
            ends, began = self._run(cluster, jobs)
            settings.say(f"elastic: offers: {cluster.fates()}; {cluster.most_taken} ranks on one host at most")
        times = [ends[job.name]["unix_seconds"] - began - job.arrives for job in jobs]
        measures.add(arm, "mean time of a job", "s", LESS, sum(times) / len(times))
        measures.add(arm, "longest time of a job", "s", LESS, max(times))
        makespan = max(end["unix_seconds"] for end in ends.values()) - began
        rank_seconds = sum(end["rank_seconds"] for end in ends.values())
        measures.add(arm, "all jobs are done after", "s", LESS, makespan)
        measures.add(arm, "places that train", "%", MORE, 100 * rank_seconds / makespan / (len(HOSTS) * PLACES))
        measures.add(arm, "rank-seconds", "s", LESS, rank_seconds)
        settings.say(f"elastic: {cluster.offers} offers; jobs took {', '.join(f'{one:.0f}' for one in times)} s")

    def _run(self, cluster: ElasticCluster, jobs: list[ElasticJob]) -> tuple[dict[str, Line], float]:
        """Has all jobs come and go; returns their last words, and when the trace began."""
        began = time.time()
        to_come: list[ElasticJob] = list(jobs)
        waiting: list[ElasticJob] = []
        ends: dict[str, Line] = {}
        while len(ends) < len(jobs):
            now = time.time() - began
            if now > MOST_SECONDS:
                raise LaboratoryError(f"not all jobs are done after {MOST_SECONDS:.0f} s")
            while to_come and to_come[0].arrives <= now:
                waiting.append(to_come.pop(0))
            for running, end in cluster.look(waiting):
                ends[running.job.name] = end
            for job in list(waiting):
                if (initial := where(job, cluster.free())) is not None:
                    cluster.begin(job, initial)
                    waiting.remove(job)
            time.sleep(SCHEDULER_SECONDS)
        return ends, began


def where(job: ElasticJob, free: list[int]) -> list[int] | None:
    """Returns the ranks by host with which a job begins; None: it does not fit. Those hosts go first that have most
    free places. An elastic one begins on one of them, since it grows on the others."""
    left = list(free)
    initial = [0] * len(free)
    fitting = max(free) if job.is_elastic else sum(free)
    if fitting < job.least:
        return None
    first = left.index(max(left))
    for _ in range(min(job.ranks, fitting)):
        host = first if job.is_elastic else left.index(max(left))
        initial[host] += 1
        left[host] -= 1
    return initial
