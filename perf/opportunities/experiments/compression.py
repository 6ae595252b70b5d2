"""Training whose gradients go between hosts in fewer bytes."""

from __future__ import annotations

import typing

from experiments.experiment import POLICY, TRAINER, Settings, milliseconds
from experiments.laboratory import PATIENCE, Job, Laboratory
from experiments.measure import LESS, Measures

HOSTS = "host0,host2,host1,host3"
# Error bounds with which plans for four hosts may round as often as they need (docs/planning.md).
BOUNDS = {"bf16": 0.02, "fp8": 0.5}
# The shipped fabric's links are so fast that the machine's processors take longer than they do.
SHIPPED_RATE, RATE = "500Mbit", "200Mbit"


class Compression:
    """One trainer over two racks, with a seed of its own in each turn."""

    opportunity = "O2"

    def __init__(self, wire: str) -> None:
        self.name = f"compression-{wire}"
        self._wire = wire
        self.words = (
            "Data-parallel training (2.2 MB of gradients a step) of four ranks over two racks, whose links carry "
            f"25 MB/s, takes a fixed number of steps. With: sums may go between hosts as {wire}, with an error bound "
            f"of {BOUNDS[wire]:g}. Each turn has a seed of its own, the same without and with, so the spread of the "
            "losses without is that between seeds.")

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs."""
        del settings
        return ("without", "with")

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Trains once."""
        steps = 20 if settings.quick else 300
        words = ("training", "--widths", "64,512,512,512,10", "--batch", "8", "--learning-rate", "0.02", "--seed",
                 str(turn + 1), "--most-steps", str(steps), "--evaluate-samples", str(steps * 32 // 10),
                 "--seconds", "3600")
        requirements = (f'[collectives.compression]\nallow = ["{self._wire}"]\n'
                        f"error_bound = {BOUNDS[self._wire]}\n") if arm == "with" else ""
        fabric = settings.fabric("two-racks.toml").replace(SHIPPED_RATE, RATE)
        with Laboratory(settings.programs, fabric, POLICY) as laboratory:
            running = laboratory.start(Job("trainer", words, HOSTS, TRAINER, requirements))
            running.wait(PATIENCE + steps)
            lines, end = running.lines(), running.end()
        measures.add(arm, f"seconds for {steps} steps", "s", LESS, end["seconds"])
        measures.add(arm, "p50 of a step", "ms", LESS, milliseconds(end["step_seconds"]["p50"]))
        measures.add(arm, "p99 of a step", "ms", LESS, milliseconds(end["step_seconds"]["p99"]))
        curve = [line for line in lines if line["event"] == "evaluated"]
        middle = curve[len(curve) // 2]
        measures.add(arm, f"held-out loss after {middle['step']} steps", "", LESS, middle["loss"])
        measures.add(arm, f"held-out loss after {steps} steps", "", LESS, end["loss"])
        measures.add_curve(arm, turn, [{key: line[key] for key in ("seconds", "step", "loss")} for line in curve])
