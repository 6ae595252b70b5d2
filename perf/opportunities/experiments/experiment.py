"""What all experiments have in common."""

from __future__ import annotations

import dataclasses
import pathlib
import typing

from experiments.laboratory import Laboratory
from experiments.measure import Measures

# The provider grants what jobs ask for, with and without cooperation: only what jobs say differs.
POLICY = """\
[policy]
most_priority = 3
most_bandwidth_floor = "1 TB/s"
"""

# Tenants; each has the same weight.
TRAINER, SERVER, PIPELINER, EXPERT, OTHER = 1001, 1002, 1003, 1004, 1005


@dataclasses.dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    programs: pathlib.Path
    fabrics: pathlib.Path
    runs: int
    quick: bool
    seconds: float
    slow_to: float
    say: typing.Callable[[str], None]

    def laboratory(self, fabric: str, *, hosts: str = "", controller: str = "",
                   policy: str = "") -> Laboratory:
        """Returns a laboratory of a shipped fabric, by its file's name. `policy` adds to what the provider grants."""
        return Laboratory(self.programs, self.fabric(fabric), POLICY + policy, hosts=hosts, controller=controller)

    def fabric(self, name: str) -> str:
        """Returns the text of a shipped fabric file."""
        return (self.fabrics / name).read_text(encoding="utf-8")


class Experiment(typing.Protocol):
    """An experiment is a module's class of these."""

    name: str
    opportunity: str
    words: str

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Runs it once, without or with cooperation."""

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs, in this order: "without", "with", "alone"."""


def milliseconds(seconds: float | None) -> float | None:
    """Returns seconds in milliseconds; None for None."""
    return None if seconds is None else seconds * 1e3
