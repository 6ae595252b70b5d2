"""Several elastic trainings that share a few hosts: static sizes against sizes that follow offers."""

from __future__ import annotations

import random
import time
import typing

from experiments.elastic_cluster import ElasticCluster, ElasticJob, why_not_elastic
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
REQUIREMENTS = """\
[job]
kind = "training"
[elastic]
least_ranks = {least}
most_ranks = {most}
"""


def trace(seed: int, jobs: int) -> list[ElasticJob]:
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
        every.append((ranks, samples, words))
    span = work / (len(HOSTS) * PLACES) / 0.75
    arrivals = sorted(drawn.uniform(0, span) for _ in every)
    return [ElasticJob(f"job{number}", number, TRAINER + number, words, ranks, least=1, most=min(8, 4 * ranks),
                       samples=samples, requirements=REQUIREMENTS.format(least=1, most=min(8, 4 * ranks)),
                       arrives=arrivals[number])
            for number, (ranks, samples, words) in enumerate(every)]


class Elastic:
    """A trace of trainings on eight places of two hosts."""

    opportunity = "O3"
    name = "elastic"
    words = ("Trainings in Python (harmonaize.elastic) of one, two and four ranks come to two hosts with four places "
             "each, links of 250 Mbit/s. Without: each has the ranks that it asks for, and one behind others begins "
             "before them where it fits. With: each begins with as many of them as there are places for, and accepts "
             "the policy's offers on the hosts where it has ranks, of one rank to four times as many as it asks for.")

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs."""
        del settings
        return ("without", "with")

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Runs one trace, another one for each turn."""
        if reason := why_not_elastic(settings.programs):
            raise LaboratoryError(reason)
        jobs = trace(turn + 1, 3 if settings.quick else 8)
        with settings.laboratory("one-rack.toml", hosts=",".join(HOSTS)) as laboratory:
            cluster = ElasticCluster(settings.programs, laboratory, HOSTS, PLACES, settings.say)
            try:
                ends, began = self._run(cluster, jobs, is_elastic=arm == "with")
            finally:
                cluster.close()
        times = [ends[job.name]["unix_seconds"] - began - job.arrives for job in jobs]
        measures.add(arm, "mean time of a job", "s", LESS, sum(times) / len(times))
        measures.add(arm, "longest time of a job", "s", LESS, max(times))
        makespan = max(end["unix_seconds"] for end in ends.values()) - began
        rank_seconds = sum(end["rank_seconds"] for end in ends.values())
        measures.add(arm, "all jobs are done after", "s", LESS, makespan)
        measures.add(arm, "places that train", "%", MORE, 100 * rank_seconds / makespan / (len(HOSTS) * PLACES))
        measures.add(arm, "rank-seconds", "s", LESS, rank_seconds)
        settings.say(f"elastic: {cluster.offers} offers; jobs took {', '.join(f'{one:.0f}' for one in times)} s")

    def _run(self, cluster: ElasticCluster, jobs: list[ElasticJob], *,
             is_elastic: bool) -> tuple[dict[str, Line], float]:
        """Has all jobs come and go; returns their last words, and when the trace began."""
        began = time.time()
        to_come, waiting = list(jobs), []
        ends: dict[str, Line] = {}
        while len(ends) < len(jobs):
            now = time.time() - began
            if now > MOST_SECONDS:
                raise LaboratoryError(f"not all jobs are done after {MOST_SECONDS:.0f} s")
            while to_come and to_come[0].arrives <= now:
                waiting.append(to_come.pop(0))
            for running, end in cluster.look(waiting, makes_offers=is_elastic):
                ends[running.job.name] = end
            for job in list(waiting):
                free = sum(cluster.free())
                if free >= (job.least if is_elastic else job.ranks):
                    cluster.begin(job, min(job.ranks, free))
                    waiting.remove(job)
            time.sleep(0.5)
        return ends, began
