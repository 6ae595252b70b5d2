"""What became of a training: the lines of its log, and what was lost at each moment at which its ranks changed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import statistics
import typing

# A pause between two new steps counts as lost time if it is longer than so many usual steps. The steps of a busy host
# differ by less, and a change of ranks takes longer.
LEAST_PAUSE_STEPS = 3.0

Line = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Moment:
    """Something that happened to the training, and when (seconds of the clock)."""

    what: str
    time: float


@dataclasses.dataclass(frozen=True)
class Loss:
    """What a moment cost: steps that were done again, and seconds without a new step."""

    what: str
    at_seconds: float
    at_step: int
    steps_again: int
    seconds_lost: float


class Log:
    """Reads a log while it is written."""

    def __init__(self, path: pathlib.Path) -> None:
        """Takes the file, which does not have to be there yet."""
        self._path = path
        self._read = 0
        self.lines: list[Line] = []

    def read(self) -> None:
        """Reads the lines that have come."""
        if not self._path.exists():
            return
        with self._path.open() as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self._read += len(whole)
        self.lines += [json.loads(line) for line in whole.splitlines()]

    @property
    def step(self) -> int:
        """The most steps that were done."""
        return max((int(line["step"]) for line in self.lines if "step" in line), default=0)

    @property
    def ranks(self) -> int:
        """With how many ranks it has gone on last; 0: it has not begun."""
        return self.sizes[-1] if self.lines else 0

    @property
    def sizes(self) -> list[int]:
        """With how many ranks it has begun, and gone on after each change."""
        return [int(line["ranks"]) for line in self.lines if "begins_at" in line]


class Course:
    """A training that has ended."""

    def __init__(self, name: str, began: float, log: Log, moments: typing.Sequence[Moment]) -> None:
        """Takes what it is called, when it was started, what it has written, and what happened to it."""
        self.name = name
        self.moments = moments
        self.sizes = log.sizes
        self._began = began
        self.steps = [line for line in log.lines if "step" in line]
        (self._end,) = (line for line in log.lines if "test_loss" in line)

    @property
    def test_loss(self) -> float:
        """The loss at the end on pictures that were not trained on."""
        return self._end["test_loss"]

    @property
    def accuracy(self) -> float:
        """The fraction of these pictures that are named."""
        return self._end["accuracy"]

    @property
    def seconds(self) -> float:
        """From the start of the first rank to the end of the training."""
        return self.seconds_of(self._end["time"])

    def seconds_of(self, time: float) -> float:
        """Seconds between the start and a time."""
        return time - self._began

    @property
    def steps_again(self) -> int:
        """How many steps were done again."""
        return len(self.steps) - len(self._new_steps())

    @property
    def seconds_lost(self) -> float:
        """Seconds without a new step, of all pauses."""
        return sum(lost for _, lost in self._pauses())

    def losses(self) -> list[Loss]:
        """What each moment has cost until the next one."""
        end = Moment("end", self._end["time"])
        return [self._loss_at(one, after.time) for one, after in itertools.pairwise([*self.moments, end])]

    def document(self) -> dict[str, typing.Any]:
        """All of it, for JSON."""
        return {
            "name": self.name,
            "sizes": self.sizes,
            "test_loss": self.test_loss,
            "accuracy": self.accuracy,
            "steps_again": self.steps_again,
            "seconds_lost": self.seconds_lost,
            "seconds": self.seconds,
            "moments": [dataclasses.asdict(loss) for loss in self.losses()],
        }

    def _loss_at(self, moment: Moment, end: float) -> Loss:
        before = [line for line in self.steps if line["time"] <= moment.time]
        between = [line for line in self.steps if moment.time < line["time"] <= end]
        new = {line["time"] for line in self._new_steps()}
        return Loss(
            what=moment.what,
            at_seconds=self.seconds_of(moment.time),
            at_step=max((int(line["step"]) for line in before), default=0),
            steps_again=sum(line["time"] not in new for line in between),
            seconds_lost=sum(lost for time, lost in self._pauses() if moment.time < time <= end),
        )

    def _new_steps(self) -> list[Line]:
        """The steps that had not been done before."""
        new, highest = [], 0.0
        for line in self.steps:
            if line["step"] > highest:
                highest = line["step"]
                new.append(line)
        return new

    def _pauses(self) -> list[tuple[float, float]]:
        """The ends of pauses between new steps, and by how much each exceeds a usual step."""
        gaps = [(after["time"], after["time"] - one["time"]) for one, after in itertools.pairwise(self._new_steps())]
        usual = statistics.median(gap for _, gap in gaps)
        return [(time, gap - usual) for time, gap in gaps if gap > LEAST_PAUSE_STEPS * usual]
