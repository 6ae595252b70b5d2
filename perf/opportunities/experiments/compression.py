"""Training whose gradients go between hosts in fewer bytes."""

from __future__ import annotations

import typing

from experiments.experiment import TRAINER, Settings
from experiments.laboratory import Job, PATIENCE
from experiments.measure import LESS, Measures

HOSTS = "host0,host2,host1,host3"
# Bounds that leave plans of many roundings, as docs/planning.md explains. "also" are formats that may lose less.
FORMATS = {"bf16": 0.05, "fp8": 0.5}


class Compression:
    """One trainer over two racks, with a seed of its own in each turn."""

    opportunity = "O2"

    def __init__(self, wire: str) -> None:
        self.name = f"compression-{wire}"
        self._wire = wire
        self.words = (
            "Data-parallel training of a perceptron (5.2 MB of gradients a step, four ranks over two racks) takes a "
            f"fixed number of steps. With: sums may go between hosts as {wire}, with an error bound of "
            f"{FORMATS[wire]:g}. Each turn has a seed of its own, the same without and with, so the spread of the "
            "losses without is that between seeds.")

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs."""
        del settings
        return ("without", "with")

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Trains once."""
        steps = 20 if settings.quick else 300
        words = ("training", "--widths", "32,1024,1024,192,10", "--batch", "4", "--learning-rate", "0.01", "--seed",
                 str(turn + 1), "--most-steps", str(steps), "--evaluate-samples", str(steps * 16 // 10),
                 "--seconds", "3600")
        requirements = (f'[collectives.compression]\nallow = ["{self._wire}"]\n'
                        f"error_bound = {FORMATS[self._wire]}\n") if arm == "with" else ""
        with settings.laboratory("two-racks.toml") as laboratory:
            running = laboratory.start(Job("trainer", words, HOSTS, TRAINER, requirements))
            running.wait(PATIENCE + steps)
            lines, end = running.lines(), running.end()
        measures.add(arm, f"seconds for {steps} steps", "s", LESS, end["seconds"])
        measures.add(arm, "p50 of a step", "ms", LESS, end["step_seconds"]["p50"] * 1e3)
        measures.add(arm, "p99 of a step", "ms", LESS, 
                     None if end["step_seconds"].get("p99") is None else end["step_seconds"]["p99"] * 1e3)
        curve = [line for line in lines if line["event"] == "evaluated"]
        middle = curve[len(curve) // 2]
        measures.add(arm, f"held-out loss after {middle['step']} steps", "", LESS, middle["loss"])
        measures.add(arm, f"held-out loss after {steps} steps", "", LESS, end["loss"])
        measures.add_curve(arm, turn, [{key: line[key] for key in ("seconds", "step", "loss")} for line in curve])
