"""A job with a bandwidth floor beside greedy ones."""

from __future__ import annotations

import typing

from experiments.experiment import OTHER, TRAINER, Settings, milliseconds
from experiments.laboratory import Job
from experiments.measure import LESS, MORE, Measures

FLOOR = '[collectives]\nbandwidth_floor = "25 MB/s"\n'
GREEDY = ("host1,host4", "host2,host5", "host1,host4")


class Floor:
    """Training with a floor, and three jobs of other tenants that send all the time."""

    name = "floor"
    opportunity = "O2"
    words = ("Data-parallel training (2.2 MB of gradients a step) shares a link of 50 MB/s between two racks with "
             "three jobs of other tenants, which make all-reduces of 8 MiB one after the other. A controller shares "
             "the link out. With: the trainer asks for a bandwidth_floor of 25 MB/s; an equal share is 12.5.")

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs."""
        return ("without", "with") if settings.quick else ("without", "with", "alone")

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Runs all four beside each other, or the trainer alone."""
        del turn
        seconds = 2 if settings.quick else settings.seconds
        # The controller knows jobs by what they send: a floor holds some seconds after the first step.
        settle = 2 if settings.quick else 5
        with settings.laboratory("one-spine.toml", controller="host0") as laboratory:
            words = ("training", "--widths", "64,512,512,512,10", "--batch", "1", "--learning-rate", "0.001",
                     "--evaluate-samples", "1e9", "--after", str(laboratory.begin), "--until", str(laboratory.end),
                     "--seconds", "3600")
            jobs = [Job("trainer", words, "host0,host3", TRAINER, FLOOR if arm == "with" else "")]
            if arm != "alone":
                jobs += [Job(f"greedy{number}", ("--json", "-i", "0.25", "-s", "3600", "-b", "8M", "--until",
                                                 str(laboratory.end)), hosts, OTHER + number,
                             program="timeline_perf")
                         for number, hosts in enumerate(GREEDY)]
            running = laboratory.measure(jobs, settle, seconds)
            greedy = sum(one.rate(laboratory.begin, laboratory.end) for name, one in running.items()
                         if name != "trainer")
            end = running["trainer"].end()
        steps = end["step_seconds"]
        measures.add(arm, "trainer: p50 of a step", "ms", LESS, milliseconds(steps["p50"]))
        measures.add(arm, "trainer: longest step", "ms", LESS, milliseconds(steps["longest"]))
        measures.add(arm, "trainer: samples a second", "", MORE, end["samples_per_second"])
        measures.add(arm, "trainer: gradients", "MB/s", MORE, end["bytes_exchanged"] / end["seconds"] * 1e-6)
        if arm != "alone":
            measures.add(arm, "the three others together", "MB/s", MORE, greedy * 1e-6)
