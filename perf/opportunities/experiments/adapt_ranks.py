"""An elastic training whose network becomes slow: its ranks follow offers, its batch follows advice, or neither."""

from __future__ import annotations

import time
import typing

from experiments.elastic_cluster import SIZING, ElasticCluster, ElasticJob, Running, why_not_elastic
from experiments.experiment import POLICY, TRAINER, Settings
from experiments.laboratory import Laboratory, LaboratoryError, Line
from experiments.measure import LESS, MORE, Measures

HOSTS = ("host0", "host1", "host2", "host3")
RATE_MBIT = 100
FABRIC = f"""\
[[host]]
name = ["host0", "host1", "host2", "host3"]
rack = "rack0"
[[switch]]
name = "leaf0"
rack = "rack0"
[[link]]
from = ["host0", "host1", "host2", "host3"]
to = "leaf0"
rate = "{RATE_MBIT}Mbit"
"""
REQUIREMENTS = """\
[job]
kind = "training"
goal = "cheapest"
[adapt]
accumulation = [1, 8]
learning_rate_factor = [1, 4]
[elastic]
least_ranks = 2
most_ranks = 4
offers = "accept"
"""
SAMPLE_MILLISECONDS = 7
MOST_SECONDS = 240.0
# Seconds between two looks of the daemons. Three in a row have to want a change. Advice on the batch comes within a
# second, and what it brings is seen after some more: ranks follow only where that was not enough.
LOOK_EVERY_SECONDS = 2


class AdaptRanks:
    """A trainer of four ranks whose links lose a part of their rate while it runs."""

    opportunity = "O1"

    def __init__(self, follows: str) -> None:
        """`follows`: "ranks", "batch" or "both"."""
        self.name = f"adapt-elastic-{follows}"
        self._by_ranks = follows in ("ranks", "both")
        self._by_batch = follows in ("batch", "both")
        with_it = {"ranks": "it is to be cheap, may go down to two ranks, and accepts what the daemons offer",
                   "batch": "it follows advice of an accumulation up to 8, with up to four times the learning rate",
                   "both": "it follows advice, and accepts what the daemons offer to a job that is to be cheap"}
        self.words = (
            "Data-parallel training in Python (harmonaize.elastic) of four ranks on as many hosts, batches of 64 "
            f"samples of {SAMPLE_MILLISECONDS} ms each, 307 kB of gradients over links of {RATE_MBIT / 8:g} MB/s, until "
            "a held-out loss is reached. After a third of the samples all links keep a part of their rate (--slow-to). "
            f"With: {with_it[follows]}.")

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs."""
        del settings
        return ("without", "with")

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Trains once, with a seed for each turn."""
        if reason := why_not_elastic():
            raise LaboratoryError(reason)
        goal, slow_after = (1.9, 500.0) if settings.quick else (1.0, 5000.0)
        is_with = arm == "with"
        by_ranks, by_batch = is_with and self._by_ranks, is_with and self._by_batch
        words = ("--seed", str(turn + 1), "--batch", "64", "--sample-ms", str(SAMPLE_MILLISECONDS), "--learning-rate",
                 "0.02", "--until-loss", str(goal), "--evaluate-samples", "512", *(["--follow"] if by_batch else []))
        job = ElasticJob("trainer", TRAINER, words, ranks=4, least=2 if by_ranks else 4, most=4,
                         requirements=REQUIREMENTS if is_with else "")
        sizing = SIZING.format(places=1, look_every_seconds=LOOK_EVERY_SECONDS) if by_ranks else ""
        with Laboratory(settings.programs, FABRIC, POLICY + sizing, controller=HOSTS[0]) as laboratory:
            cluster = ElasticCluster(settings.programs, laboratory, HOSTS, 1, settings.say, decides=by_ranks)
            running = cluster.begin(job, [1] * len(HOSTS))
            end = self._train(settings, laboratory, cluster, running, slow_after)
            self._note(settings, arm, turn, measures, running.lines(), end, goal)

    def _train(self, settings: Settings, laboratory: Laboratory, cluster: ElasticCluster, running: Running,
               slow_after: float) -> Line:
        """Looks at the job twice a second until it ends, and slows the links down on the way."""
        is_slow = False
        deadline = time.monotonic() + MOST_SECONDS
        while time.monotonic() < deadline:
            for _, end in cluster.look([]):
                return end
            lines = running.lines()
            if not is_slow and lines and lines[-1]["samples"] >= slow_after:
                for host in HOSTS:
                    laboratory.disturb("rate", f"{host}-leaf0", f"{round(RATE_MBIT * settings.slow_to)}Mbit")
                settings.say(f"{self.name}: the links are slow from step {lines[-1]['step']} on")
                is_slow = True
            time.sleep(0.5)
        raise LaboratoryError(f"{self.name} has not reached its loss in {MOST_SECONDS:.0f} s")

    def _note(self, settings: Settings, arm: str, turn: int, measures: Measures, lines: list[Line], end: Line,
              goal: float) -> None:
        measures.add(arm, f"seconds to a held-out loss of {goal:g}", "s", LESS, end["seconds"])
        measures.add(arm, "rank-seconds", "s", LESS, end["rank_seconds"])
        measures.add(arm, "gradients exchanged by a rank", "MB", LESS, end["bytes_exchanged"] * 1e-6)
        measures.add(arm, "samples", "", LESS, end["samples"])
        measures.add(arm, "samples a second", "", MORE, end["samples"] / end["seconds"])
        for line in lines:
            if line["event"] == "followed":
                settings.say(f"{self.name}: at step {line['step']} ({line['why']}): accumulation "
                             f"{line['accumulation']:g}, learning rate times {line['factor']:g}")
            if line["event"] == "world":
                settings.say(f"{self.name}: at step {line['step']}: {line['ranks']} ranks")
        measures.add_curve(arm, turn, [{key: line[key] for key in ("seconds", "step", "samples", "loss",
                                                                  "accumulation", "rank_seconds")}
                                       for line in lines if line["event"] == "evaluated"])
