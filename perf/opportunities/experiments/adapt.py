"""Training that follows advice when its network becomes slow."""

from __future__ import annotations

import time
import typing

from experiments.experiment import POLICY, TRAINER, Settings
from experiments.laboratory import PATIENCE, Job, Laboratory, wait_for
from experiments.measure import LESS, MORE, Measures

HOSTS = "host0,host1"
LINK = "leaf0-leaf1"
RATE_MBIT = 100
FABRIC = f"""\
[[host]]
name = ["host0"]
rack = "rack0"
[[host]]
name = ["host1"]
rack = "rack1"
[[switch]]
name = "leaf0"
rack = "rack0"
[[switch]]
name = "leaf1"
rack = "rack1"
[[link]]
from = "host0"
to = "leaf0"
rate = "400Mbit"
[[link]]
from = "host1"
to = "leaf1"
rate = "400Mbit"
[[link]]
from = "leaf0"
to = "leaf1"
rate = "{RATE_MBIT}Mbit"
"""
# What a job tells of how far its training bears other values. The tuned one has a rate near the largest already.
REQUIREMENTS = """\
[job]
kind = "training"
[adapt]
accumulation = [1, 16]
learning_rate_factor = [1, {factor:g}]
"""
MOST_SECONDS = 240


class Adapt:
    """A trainer whose link loses a part of its rate while it runs."""

    opportunity = "O1"

    def __init__(self, *, tuned: bool) -> None:
        self.name = "adapt-tuned" if tuned else "adapt"
        self._accumulation = 4 if tuned else 1
        self._learning_rate = 0.08 if tuned else 0.02
        self._factor = 1.5 if tuned else 4.0
        self.words = (
            "Data-parallel training (307 kB of gradients a step, 25 ms over a link of 12.5 MB/s; passes of 7 ms) goes "
            "on until a held-out loss is reached. Two seconds after its first step the link keeps a part of its rate "
            f"(--slow-to). The job begins with an accumulation of {self._accumulation}"
            ", and reports progress in both arms. With: "
            "it states that its accumulation may be 1 to 16 and its learning rate up to "
            f"{self._factor:g} times as large, and takes over what adaptation.advised says.")

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs."""
        del settings
        return ("without", "with")

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Trains once, with a seed for each turn."""
        goal = 1.4 if settings.quick else 0.98
        words = ("training", "--widths", "32,256,256,10", "--batch", "16", "--accumulation",
                 str(self._accumulation), "--learning-rate", str(self._learning_rate), "--compute", "5", "--seed",
                 str(turn + 1), "--until-loss", str(goal), "--evaluate-samples", "1024", "--seconds",
                 str(MOST_SECONDS), "--report", *(["--follow"] if arm == "with" else []))
        requirements = REQUIREMENTS.format(factor=self._factor) if arm == "with" else ""
        with Laboratory(settings.programs, FABRIC, POLICY) as laboratory:
            running = laboratory.start(Job("trainer", words, HOSTS, TRAINER, requirements))
            wait_for("the trainer is ready", lambda: running.has_ended() or running.is_ready())
            time.sleep(0.5 if settings.quick else 2)
            laboratory.disturb("rate", LINK, f"{round(RATE_MBIT * settings.slow_to)}Mbit")
            running.wait(PATIENCE + MOST_SECONDS)
            lines, end = running.lines(), running.end()
        measures.add(arm, f"seconds to a held-out loss of {goal:g}", "s", LESS, end["seconds_to_loss"])
        measures.add(arm, "rank-seconds", "s", LESS, end["rank_seconds"])
        measures.add(arm, "gradients exchanged by a rank", "MB", LESS, end["bytes_exchanged"] * 1e-6)
        measures.add(arm, "samples", "", LESS, end["samples"])
        measures.add(arm, "samples a second", "", MORE, end["samples_per_second"])
        for line in lines:
            if line["event"] == "followed":
                settings.say(f"{self.name}: after {line['seconds']:.1f} s ({line['why']}): accumulation "
                             f"{line['accumulation']:g}, learning rate times {line['learning_rate_factor']:g}")
        curve = [line for line in lines if line["event"] == "evaluated"]
        measures.add_curve(arm, turn, [{key: line[key] for key in ("seconds", "step", "samples", "loss",
                                                                  "accumulation")} for line in curve])
