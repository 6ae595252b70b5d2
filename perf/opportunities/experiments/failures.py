"""A training that fails again and again: which part of its time is of use, by how and when it saves."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
import time
import typing

from experiments.elastic_cluster import ROOT, why_not_elastic
from experiments.experiment import POLICY, TRAINER, Settings
from experiments.failing_job import FailingJob, Failure, Outcome, make_failures, outcome_of
from experiments.failure_history import HOST_PRIOR, RANK_PRIOR, seen_for, write_history
from experiments.laboratory import Job, Laboratory, LaboratoryError, wait_for
from experiments.measure import LESS, MORE, Measures

import harmonaize

PROGRAM = ROOT / "perf" / "opportunities" / "failing_trainer.py"
HOSTS = ("host0", "host1")
FABRIC = """\
[[host]]
name = ["host0", "host1"]
[[link]]
from = "host0"
to = "host1"
rate = "500Mbit"
"""
# Shortest interval that is advised, in seconds: that of the trace's failures is so short, too.
LEAST_SECONDS = 1
POLICY_OF_ADVICE = f'least_checkpoint_interval = "{LEAST_SECONDS} s"\n'
JOB = "trainer"
# Part of the failures that takes a host: some, and fewer than those of programs.
HOST_PART = 0.25
# Seconds for which a write stalls the trainer: 31 MB to storage that takes 32 MB a second. Young's interval goes by it.
WRITE_SECONDS = 1.0
# Seconds for which the trainer goes on when what counts is over: of a start that was under way, the step is told.
AFTERWARDS_SECONDS = 3.0
# Runs of which the simulation takes the mean, for which a second is enough.
SIMULATED_RUNS = 200
# Mean seconds until the job hears of advice: the daemon looks twice a second.
HEARS_AFTER_SECONDS = 0.25
# Part by which the failures in a day that the daemon knows of may be off: of hosts it knows 1, 2 or 5 times a power of
# ten.
KNOWN_WITHIN = 0.3


@dataclasses.dataclass(frozen=True)
class Way:
    """How a trainer saves, and when: every so many times Young's interval for a write; None: when it is advised."""

    writes: bool
    times_young: float | None


WAYS = {
    "write, a quarter": Way(writes=True, times_young=0.25),
    "write, Young": Way(writes=True, times_young=1),
    "write, four times": Way(writes=True, times_young=4),
    "write, advice": Way(writes=True, times_young=None),
    "memory, Young": Way(writes=False, times_young=1),
    "memory, advice": Way(writes=False, times_young=None),
}
QUICK_WAYS = ("write, Young", "memory, advice")
# What is measured of which ways: the words, the unit, what is better, the way without and the way with cooperation.
ROWS = (
    ("goodput; without: a write each quarter of Young's interval", "%", MORE, "write, a quarter", "memory, advice"),
    ("goodput; without: a write each Young's interval", "%", MORE, "write, Young", "memory, advice"),
    ("goodput; without: a write each four of Young's intervals", "%", MORE, "write, four times", "memory, advice"),
    ("goodput; a write in both, each Young's interval or by advice", "%", MORE, "write, Young", "write, advice"),
    ("goodput; Young's interval for a write in both, a write or memory", "%", MORE, "write, Young", "memory, Young"),
    ("stall of a save", "ms", LESS, "write, Young", "memory, advice"),
    ("from a failure to work", "s", LESS, "write, Young", "memory, advice"),
    ("work that a failure costs", "s", LESS, "write, Young", "memory, advice"),
)


class Failures:
    """A trainer on two hosts that is killed now and then, with or without its host's daemon."""

    opportunity = "O5"

    def __init__(self, mean_seconds: float, seconds: float) -> None:
        """The job runs for `seconds`, and fails each `mean_seconds` on average."""
        self.name = f"failures-{mean_seconds:g}"
        self._mean_seconds = mean_seconds
        self._seconds = seconds
        self.words = (
            f"Data-parallel training in Python of two ranks on two hosts, steps of 0.1 s and a state of 31 MB, which is "
            f"killed every {mean_seconds:g} s on average, in a quarter of the cases with its host's daemon, and is "
            f"started again at once; {seconds:g} s are measured. Without: rank 0 writes the state to storage of 32 MB/s, "
            "at a fixed interval. With: harmonaize.checkpoint saves it in memory and at a peer, when it is advised.")

    def arms(self, settings: Settings) -> typing.Sequence[str]:
        """Returns what a turn runs."""
        return QUICK_WAYS if settings.quick else tuple(WAYS)

    def run(self, settings: Settings, arm: str, turn: int, measures: Measures) -> None:
        """Runs it once, with failures of their own for each turn."""
        if reason := why_not_elastic():
            raise LaboratoryError(reason)
        failures = make_failures(turn + 1, self._mean_seconds, self._seconds, HOSTS, HOST_PART)
        seconds = self._seconds
        if settings.quick:
            failures, seconds = [Failure(1.5, "host0", False), Failure(3.5, "host1", True)], 6.0
        with Laboratory(settings.programs, FABRIC, POLICY + POLICY_OF_ADVICE, prepare=self._know_rates) as laboratory:
            outcome, safe = self._train(laboratory, settings, WAYS[arm], turn, failures, seconds)
        simulated = self._simulate(settings, arm, seconds, safe, outcome)
        self._note(settings, arm, turn, measures, outcome, simulated, safe)

    def _know_rates(self, laboratory: Laboratory) -> None:
        rank_rate = (1 - HOST_PART) / self._mean_seconds / len(HOSTS)
        host_rate = HOST_PART / self._mean_seconds / len(HOSTS)
        for host in HOSTS:
            write_history(laboratory.host_folder(host), JOB, TRAINER, seen_for(rank_rate, RANK_PRIOR),
                          seen_for(host_rate, HOST_PRIOR))

    def _interval(self, way: Way) -> float | None:
        """Returns the fixed interval; None: there is none."""
        if way.times_young is None:
            return None
        return way.times_young * math.sqrt(2 * WRITE_SECONDS * self._mean_seconds)

    def _train(self, laboratory: Laboratory, settings: Settings, way: Way, turn: int,
               failures: typing.Sequence[Failure], seconds: float) -> tuple[Outcome, float]:
        """Has the job run and fail; returns what became of its time, and after what time a checkpoint is safe."""
        folder = laboratory.folder / "checkpoints"
        folder.mkdir()
        folder.chmod(0o1777)
        words = (str(PROGRAM), "--seed", str(turn + 1), "--every", str(self._interval(way) or 0),
                 *(["--folder", str(folder)] if way.writes else []))
        environment = {"HARMONAIZE_HOME": str(settings.programs.parent), "OMP_NUM_THREADS": "1",
                       "PYTHONPATH": str(ROOT / "plugins" / "python"), "OPENBLAS_NUM_THREADS": "1"}
        job = FailingJob(laboratory, Job(JOB, words, ",".join(HOSTS), TRAINER, program=sys.executable,
                                         environment=environment))
        wait_for("the first checkpoint is made", lambda: job.first_save() is not None)
        # No work is there yet that could be lost.
        begin = job.first_save() or 0.0
        for failure in failures:
            job.work_until(begin + failure.at)
            job.strike(failure)
        job.work_until(begin + seconds + AFTERWARDS_SECONDS)
        safe = self._check_advice(laboratory)
        job.stop()
        return outcome_of(job.lines(), job.struck, begin, begin + seconds), safe

    def _check_advice(self, laboratory: Laboratory) -> float:
        """Checks that the daemon knows the rate; returns after what time a checkpoint is safe."""
        advice = harmonaize.connect(laboratory.socket(HOSTS[0]), as_operator=True).checkpoint_advice(JOB)
        known = advice.hazard.per_day * self._mean_seconds / 86400
        if abs(known - 1) > KNOWN_WITHIN:
            raise LaboratoryError(f"the daemon knows of {known:.2f} times as many failures as there are")
        return advice.lasting.seconds.p50

    def _simulate(self, settings: Settings, arm: str, seconds: float, safe: float,
                  outcome: Outcome) -> tuple[float, float]:
        """Returns the goodput that simulate_checkpoints has for the same costs: for the same failures, and the mean for
        any that come as often."""
        interval = self._interval(WAYS[arm])
        numbers = {"hosts": len(HOSTS), "mtbf": self._mean_seconds, "seconds": seconds, "stall": max(0.0, outcome.cost),
                   "safe": safe, "restart": outcome.restart, "step": outcome.step, "least": LEAST_SECONDS,
                   "delay": HEARS_AFTER_SECONDS, "every": interval or 1, "rank-part": 1 - HOST_PART, "announced": 0}
        # One after the end, since none at all would be drawn.
        at = ",".join(f"{one:.3f}" for one in (*outcome.failures, seconds + 1))
        words = [f"--{name}={value}" for name, value in numbers.items()]
        arm_number = -1 if interval is None else 0
        return (self._goodput(settings, [*words, "--seeds=1", f"--at={at}"], arm_number),
                self._goodput(settings, [*words, f"--seeds={SIMULATED_RUNS}"], arm_number))

    def _goodput(self, settings: Settings, words: typing.Sequence[str], arm_number: int) -> float:
        done = subprocess.run([str(settings.programs / "simulate_checkpoints"), *words, "--known", "--json"], text=True,
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise LaboratoryError(f"simulate_checkpoints: {done.stderr.strip()}")
        return float(json.loads(done.stdout)["jobs"][0]["costs"][0]["arms"][arm_number]["goodput"])

    def _note(self, settings: Settings, arm: str, turn: int, measures: Measures, outcome: Outcome,
              simulated: tuple[float, float], safe: float) -> None:
        for what, unit, better, without, with_it in ROWS:
            value = value_of(what, outcome)
            measures.add("without", what, unit, better, value if arm == without else None)
            measures.add("with", what, unit, better, value if arm == with_it else None)
        measures.add_curve(arm, turn, [{"goodput": outcome.goodput, "simulated": simulated[0],
                                        "expected": simulated[1], "stall": outcome.stall, "cost": outcome.cost,
                                        "safe": safe, "restart": outcome.restart, "lost": outcome.lost,
                                        "step": outcome.step, "saves": outcome.saves,
                                        "failures": len(outcome.failures)}])
        settings.say(f"{self.name}: {arm}: goodput {outcome.goodput:.1%}, simulated {simulated[0]:.1%}, expected "
                     f"{simulated[1]:.1%}; {len(outcome.failures)} failures, {outcome.saves} saves with a stall of "
                     f"{outcome.stall:.3f} s and a cost of {outcome.cost:.3f} s, safe after {safe:.2f} s, restarts of "
                     f"{outcome.restart:.2f} s, {outcome.lost:.2f} s lost by each, steps of {outcome.step:.4f} s")


def value_of(what: str, outcome: Outcome) -> float | None:
    """Returns what a row tells of a run; None: the run had no failure that would tell it."""
    if what.startswith("goodput"):
        return 100 * outcome.goodput
    if what.startswith("stall"):
        return 1e3 * outcome.stall
    if not outcome.failures:
        return None
    return outcome.restart if what.startswith("from") else outcome.lost
