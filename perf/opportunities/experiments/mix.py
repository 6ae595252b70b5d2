"""Jobs of all kinds at once."""

from __future__ import annotations

import typing

from experiments.experiment import EXPERT, PIPELINER, SERVER, TRAINER, Settings, milliseconds
from experiments.laboratory import Job, Laboratory
from experiments.measure import LESS, MORE, Measures

LATENCY = '[job]\nkind = "inference"\n[collectives]\nobjective = "latency"\n'
# How the server is put before the others.
SERVER_ASKS = {"priority": "priority = 3\n", "floors": 'bandwidth_floor = "18 MB/s"\n'}
REQUIREMENTS = {
    "trainer": '[job]\nkind = "training"\n[collectives]\nobjective = "throughput"\n',
    "server": LATENCY,
    "pipeline": '[job]\nkind = "training"\n[collectives]\nbandwidth_floor = "12 MB/s"\n',
    "experts": "",
}


class Mix:
    """A trainer, a server, a pipeline and experts of four tenants on one fabric."""

    opportunity = "O2"

    def __init__(self, server: str) -> None:
        self.name = f"mix-{server}"
        self._requirements = dict(REQUIREMENTS, server=LATENCY + SERVER_ASKS[server])
        asks = {"priority": "priority 3", "floors": "a floor of 18 MB/s"}[server]
        self.words = (
            "Training, serving, a pipeline and experts of four tenants, each with two hosts of two racks, meet on one "
            f"link of 50 MB/s, which a controller shares out. With: the server asks for latency and {asks}, the "
            "pipeline for a floor of 12 MB/s, the trainer says that it wants throughput, and the experts say nothing."
            + (" Alone: each without the others." if server == "priority" else ""))

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs."""
        if settings.quick or self.name != "mix-priority":
            return ("without", "with")
        return ("without", "with", "alone")

    def _jobs(self, laboratory: Laboratory, arm: str) -> dict[str, Job]:
        window = ("--after", str(laboratory.begin), "--until", str(laboratory.end), "--seconds", "3600")
        kinds = {
            "trainer": (("training", "--widths", "64,512,512,512,10", "--batch", "1", "--learning-rate", "0.001",
                         "--evaluate-samples", "1e9"), "host0,host3", TRAINER),
            "server": (("serving", "--bytes", "64K", "--layers", "4", "--compute", "0.3", "--tokens", "4", "--rate",
                        "8"), "host0,host3", SERVER),
            "pipeline": (("pipeline", "--bytes", "256K", "--micro-batches", "8", "--compute", "5"), "host1,host4",
                         PIPELINER),
            "experts": (("experts", "--bytes", "2K", "--tokens", "512", "--compute", "0.02"), "host2,host5", EXPERT),
        }
        return {name: Job(name, (*words, *window), hosts, user, self._requirements[name] if arm == "with" else "")
                for name, (words, hosts, user) in kinds.items()}

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Runs all four beside each other, or one after the other."""
        del turn
        names = list(REQUIREMENTS)
        groups = [[name] for name in names] if arm == "alone" else [names]
        for group in groups:
            with settings.laboratory("one-spine.toml", controller="host0") as laboratory:
                jobs = self._jobs(laboratory, arm)
                running = laboratory.measure([jobs[name] for name in group], 2 if settings.quick else 5,
                                             2 if settings.quick else settings.seconds)
                for name in group:
                    self._tell(name, running[name].end(), arm, measures)

    def _tell(self, name: str, end: dict[str, typing.Any], arm: str, measures: Measures) -> None:
        key, one, several = {"trainer": ("step_seconds", "step", "steps"),
                             "pipeline": ("batch_seconds", "batch", "batches"),
                             "server": ("all_reduce_seconds", "all-reduce", "all-reduces"),
                             "experts": ("step_seconds", "step", "steps")}[name]
        times = end[key]
        measures.add(arm, f"{name}: p50 of {several}", "ms", LESS, milliseconds(times.get("p50")))
        if name == "server":
            measures.add(arm, f"{name}: p99 of {several}", "ms", LESS, milliseconds(times.get("p99")))
            measures.add(arm, "server: p99 of tokens", "ms", LESS, milliseconds(end["token_seconds"].get("p99")))
            return
        # Of few steps the median tells nothing of those that were held up for long.
        measures.add(arm, f"{name}: longest {one}", "ms", LESS, milliseconds(times.get("longest")))
        measures.add(arm, f"{name}: {several} a second", "", MORE, times["count"] / end["seconds"])
