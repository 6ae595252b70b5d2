"""Serving beside training on the same hosts and links."""

from __future__ import annotations

import typing

from experiments.experiment import SERVER, TRAINER, Settings, milliseconds
from experiments.laboratory import Job, Laboratory
from experiments.measure import LESS, MORE, Measures

HOSTS = "host0,host3"
SERVING = """\
[job]
kind = "inference"
[collectives]
objective = "latency"
priority = 3
deadline_us = 4000
percentile = 99
"""
SPINNING = "spinning = true\n"
TRAINING = """\
[job]
kind = "training"
[collectives]
objective = "throughput"
"""


class ServingBesideTraining:
    """A server with small all-reduces, and a trainer that always has gradients to send."""

    opportunity = "O2"

    def __init__(self, *, spinning: bool) -> None:
        self.name = "serving-beside-training" + ("-spinning" if spinning else "")
        self._policy = SPINNING if spinning else ""
        self.words = (
             "A tensor-parallel server (all-reduces of 64 KiB, requests at Poisson times) and data-parallel "
             "training (2.2 MB of gradients a step) of two tenants, each with a rank on two hosts, share one link "
             "of 50 MB/s. With: the server asks for latency, priority 3 and a deadline of 4 ms at the 99th "
             "percentile, and the trainer says that it wants throughput. Alone: each without the other."
             + (" The provider's policy lets engines keep looking for work of jobs that want latency."
                if spinning else ""))

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs."""
        return ("without", "with") if settings.quick else ("without", "with", "alone")

    def _server(self, laboratory: Laboratory, arm: str) -> Job:
        words = ("serving", "--bytes", "64K", "--layers", "4", "--compute", "0.3", "--tokens", "4", "--rate", "8",
                 "--after", str(laboratory.begin), "--until", str(laboratory.end), "--seconds", "3600")
        return Job("server", words, HOSTS, SERVER, SERVING if arm == "with" else "")

    def _trainer(self, laboratory: Laboratory, arm: str) -> Job:
        words = ("training", "--widths", "64,512,512,512,10", "--batch", "1", "--learning-rate", "0.001",
                 "--evaluate-samples", "1e9", "--after", str(laboratory.begin), "--until", str(laboratory.end),
                 "--seconds", "3600")
        return Job("trainer", words, HOSTS, TRAINER, TRAINING if arm == "with" else "")

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Runs both beside each other, or one after the other."""
        del turn
        seconds = 2 if settings.quick else settings.seconds
        settle = 0.5 if settings.quick else 2
        groups = [("server",), ("trainer",)] if arm == "alone" else [("server", "trainer")]
        for names in groups:
            with settings.laboratory("one-spine.toml", hosts=HOSTS, policy=self._policy) as laboratory:
                jobs = {"server": self._server(laboratory, arm), "trainer": self._trainer(laboratory, arm)}
                running = laboratory.measure([jobs[name] for name in names], settle, seconds)
                if "server" in names:
                    self._tell_of_server(running["server"].end(), arm, measures)
                if "trainer" in names:
                    measures.add(arm, "trainer: samples a second", "", MORE,
                                 running["trainer"].end()["samples_per_second"])

    def _tell_of_server(self, end: dict[str, typing.Any], arm: str, measures: Measures) -> None:
        for what, key in (("an all-reduce", "all_reduce_seconds"), ("a token", "token_seconds")):
            for name, quantile in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999")):
                measures.add(arm, f"server: {name} of {what}", "ms", LESS, milliseconds(end[key].get(quantile)))
