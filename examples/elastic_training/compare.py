"""Runs the training of this folder three times, at a daemon of its own: undisturbed, elastic, and with restarts.

    python3 compare.py --json comparison.json --picture comparison.png

Four things happen to the elastic training and to the one that is restarted, at the same steps: a rank is taken back by
the provider, a place is given again, a rank is killed, and the host's daemon is killed and started anew. Each of the
four lies half way between two checkpoints, which is what a moment at random costs on the average.

Other trainings with other seeds say by how much losses differ that nobody has disturbed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import typing

import picture
import report
from course import Course, Log, Moment
from provider import Provider
from training import Training

HERE = pathlib.Path(__file__).resolve().parent
RANKS = 4
JOB = "digits"
# When the four things happen, in distances of checkpoints. The newcomer of the second has time to start.
RECLAIM, GROW, KILL, RESTART = 2.5, 4.5, 10.5, 12.5
LENGTH = 15


@dataclasses.dataclass(frozen=True)
class Plan:
    """How long the trainings are, and how many other seeds say what noise is."""

    save_every: int
    picture_ms: float
    seeds: int

    @property
    def steps(self) -> int:
        """The steps of each training."""
        return LENGTH * self.save_every

    def step_of(self, moment: float) -> int:
        """The step at which something happens."""
        return int(moment * self.save_every)


FULL = Plan(save_every=100, picture_ms=1.0, seeds=4)
QUICK = Plan(save_every=20, picture_ms=0.75, seeds=2)


class Story:
    """Tells what happens, and when."""

    def __init__(self, name: str) -> None:
        """Begins now."""
        self.name = name
        self.began = time.time()
        self.moments: list[Moment] = []

    def say(self, step: int, text: str) -> None:
        """Prints a line."""
        print(f"{self.name:>12} {time.time() - self.began:6.1f} s  step {step:5}  {text}", flush=True)

    def happens(self, step: int, what: str, text: str) -> None:
        """Notes a moment, and prints it."""
        self.moments.append(Moment(what, time.time()))
        self.say(step, text)


class Comparison:
    """The trainings, each in a folder of its own."""

    def __init__(self, provider: Provider, folder: pathlib.Path, plan: Plan) -> None:
        """Takes the provider, a folder for files, and how long trainings are."""
        self._provider = provider
        self._folder = folder
        self._plan = plan

    def undisturbed(self) -> Course:
        """Trains with all ranks, to which nothing happens."""
        story = Story("undisturbed")
        with self._restarting("undisturbed", RANKS) as training:
            training.finish()
        return self._end(story, training.log)

    def elastic(self) -> Course:
        """Trains elastically."""
        story, plan = Story("elastic"), self._plan
        with self._elastic() as training:
            training.await_step(plan.step_of(RECLAIM))
            options = ["--ranks", "1", "--within", "10s"]
            self._offer(story, training, "reclaim", "asks for one rank back within 10 s", options, RANKS - 1)
            training.await_step(plan.step_of(GROW))
            options = ["--ranks", "1", "--within", "60s"]
            self._offer(story, training, "grow", "has a place for one more rank", options, RANKS)
            rank_0 = self._provider.process_of(RANKS, 0)
            training.await_step(plan.step_of(KILL))
            self._kill(story, training, rank_0)
            training.await_ranks(RANKS - 1)
            story.say(training.log.step, f"goes on with {RANKS - 1} ranks")
            training.await_step(plan.step_of(RESTART))
            changes = len(training.log.sizes)
            self._lose_daemon(story, training)
            training.await_change(changes)
            story.say(training.log.step, "goes on with the same ranks")
            training.finish()
        return self._end(story, training.log)

    def restarting(self) -> Course:
        """Trains with checkpoints. Whenever something happens all ranks end, and as many are started as there are."""
        story, plan = Story("restarting"), self._plan
        parts = [
            (RECLAIM, RANKS, self._take_rank),
            (GROW, RANKS - 1, self._stop_to_grow),
            (KILL, RANKS, self._kill),
            (RESTART, RANKS - 1, self._lose_daemon),
        ]
        for number, (moment, ranks, act) in enumerate(parts):
            with self._restarting("restarting", ranks) as training:
                training.await_change(number)
                rank_0 = self._provider.process_of(ranks, 0)
                training.await_step(plan.step_of(moment))
                act(story, training, rank_0)
                training.await_end()
        with self._restarting("restarting", RANKS - 1) as training:
            training.finish()
        return self._end(story, training.log)

    def losses_of_seeds(self) -> list[float]:
        """Losses at the end with other seeds, all trained at once. One rank does the same steps as several."""
        with contextlib.ExitStack() as started:
            trainings = {}
            for seed in range(2, 2 + self._plan.seeds):
                name = f"seed{seed}"
                options = ["--seed", str(seed), "--picture-ms", "0"]
                trainings[name] = started.enter_context(self._restarting(name, 1, *options))
            for training in trainings.values():
                training.finish()
        return [Course(name, 0, training.log, ()).test_loss for name, training in trainings.items()]

    # What happens

    def _offer(  # noqa: PLR0913
        self, story: Story, training: Training, kind: str, text: str, options: list[str], ranks: int
    ) -> None:
        """Makes an offer, and waits until the job has done what it has agreed to."""
        story.happens(training.log.step, kind, f"the provider {text}")
        offer = self._provider.offer(JOB, kind, *options)
        training.await_ranks(ranks)
        story.say(training.log.step, f"goes on with {ranks} ranks")
        self._provider.await_fulfilled(offer)
        story.say(training.log.step, f"the {kind} is fulfilled")

    @staticmethod
    def _kill(story: Story, training: Training, rank_0: int) -> None:
        story.happens(training.log.step, "kill -9 of rank 0", "rank 0 is killed")
        os.kill(rank_0, signal.SIGKILL)

    @staticmethod
    def _take_rank(story: Story, training: Training, rank_0: int) -> None:
        story.happens(training.log.step, "reclaim", "the provider takes a rank")
        os.kill(rank_0, signal.SIGKILL)

    @staticmethod
    def _stop_to_grow(story: Story, training: Training, _: int) -> None:
        story.happens(training.log.step, "grow", "the job is stopped, to be started with one more rank")
        training.stop()

    def _lose_daemon(self, story: Story, training: Training, _: int = 0) -> None:
        story.happens(training.log.step, "kill -9 of the daemon", "the daemon is killed, and started anew")
        self._provider.restart()

    # Starting

    def _words(self, script: str, name: str) -> list[str]:
        words = [str(HERE / script), "--steps", str(self._plan.steps), "--picture-ms", str(self._plan.picture_ms)]
        return [*words, "--log", str(self._folder / f"{name}.log")]

    def _elastic(self) -> typing.ContextManager[Training]:
        words = ["--elastic", f"2:{RANKS}", "--name", JOB, "--", sys.executable, *self._words("train.py", "elastic")]
        return self._started("elastic", RANKS, *words)

    def _restarting(self, name: str, ranks: int, *options: str) -> typing.ContextManager[Training]:
        words = ["--", sys.executable, *self._words("restarting.py", name)]
        words += ["--checkpoint", str(self._folder / f"{name}.pt"), "--save-every", str(self._plan.save_every)]
        return self._started(name, ranks, *words, *options)

    @contextlib.contextmanager
    def _started(self, name: str, ranks: int, *words: str) -> typing.Iterator[Training]:
        log = Log(self._folder / f"{name}.log")
        log.read()
        training = Training(self._provider, log, self._folder / f"{name}.output", ranks, *words)
        try:
            yield training
        finally:
            training.stop()

    @staticmethod
    def _end(story: Story, log: Log) -> Course:
        course = Course(story.name, story.began, log, story.moments)
        story.say(log.step, f"has ended with a test loss of {course.test_loss:.4f}")
        return course


def compare(plan: Plan, json_path: pathlib.Path | None, picture_path: pathlib.Path | None) -> None:
    """Runs all trainings, and shows what came of them."""
    with tempfile.TemporaryDirectory(prefix="harmonaize-") as name, Provider(pathlib.Path(name)) as provider:
        comparison = Comparison(provider, pathlib.Path(name), plan)
        courses = [comparison.undisturbed(), comparison.elastic(), comparison.restarting()]
        losses = [courses[0].test_loss, *comparison.losses_of_seeds()]
    noise = max(losses) - min(losses)
    print(report.table(courses), f"\nTest losses of {len(losses)} seeds, undisturbed, differ by {noise:.4f}.", sep="\n")
    if json_path is not None:
        numbers = {"steps": plan.steps, "save_every": plan.save_every, "noise": noise, "seeds": losses}
        json_path.write_text(json.dumps({**numbers, "courses": [course.document() for course in courses]}, indent=2))
    if picture_path is not None and not picture.draw(picture_path, courses):
        print("There is no picture: Matplotlib is not installed (Debian: python3-matplotlib).")


def main() -> None:
    """Reads the command line, and compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short trainings, to see that all of it works")
    parser.add_argument("--json", type=pathlib.Path, help="write the numbers to this file")
    parser.add_argument("--picture", type=pathlib.Path, help="draw losses and ranks into this file (PNG)")
    arguments = parser.parse_args()
    compare(QUICK if arguments.quick else FULL, arguments.json, arguments.picture)


if __name__ == "__main__":
    main()
