"""What an experiment measured, with and without cooperation, and the table of it."""

from __future__ import annotations

import dataclasses
import statistics
import typing

LESS = "less"
MORE = "more"


@dataclasses.dataclass
class Measure:
    """One quantity, once for each run. `better`: whether LESS or MORE of it is better."""

    experiment: str
    opportunity: str
    what: str
    unit: str
    better: str
    without: list[float] = dataclasses.field(default_factory=list)
    with_it: list[float] = dataclasses.field(default_factory=list)
    # What the job has with the network to itself, where an experiment measures that.
    alone: list[float] = dataclasses.field(default_factory=list)

    def ratio(self) -> float | None:
        """Returns the median with cooperation by that without; None where there is no such number."""
        if not self.without or not self.with_it or statistics.median(self.without) == 0:
            return None
        return statistics.median(self.with_it) / statistics.median(self.without)

    def verdict(self) -> str:
        """Returns "better", "worse", or "no difference" where the runs with and without overlap. One run each
        tells nothing of the spread."""
        if not self.without or not self.with_it:
            return "not told"
        if min(len(self.without), len(self.with_it)) < 2:
            return "one run"
        if max(self.with_it) < min(self.without):
            return "better" if self.better == LESS else "worse"
        if min(self.with_it) > max(self.without):
            return "better" if self.better == MORE else "worse"
        return "no difference"

    def document(self) -> dict[str, typing.Any]:
        """Returns it for JSON."""
        return {"experiment": self.experiment, "opportunity": self.opportunity, "measure": self.what,
                "unit": self.unit, "better": self.better, "without": self.without, "with": self.with_it,
                "alone": self.alone, "ratio": self.ratio(), "verdict": self.verdict()}


class Measures:
    """The measures of one experiment, in the order in which they first came."""

    def __init__(self, experiment: str, opportunity: str) -> None:
        self._experiment = experiment
        self._opportunity = opportunity
        self._measures: dict[str, Measure] = {}
        self._curves: list[dict[str, typing.Any]] = []

    def add(self, arm: str, what: str, unit: str, better: str, value: float | None) -> None:
        """Adds the value of one run. `arm`: "without", "with" or "alone". A run that does not tell the
        value, as it had too few operations for a quantile, adds nothing."""
        measure = self._measures.setdefault(
            what, Measure(self._experiment, self._opportunity, what, unit, better))
        if value is not None:
            {"without": measure.without, "with": measure.with_it, "alone": measure.alone}[arm].append(value)

    def add_curve(self, arm: str, turn: int, points: list[dict[str, float]]) -> None:
        """Adds how one run went over time."""
        self._curves.append({"arm": arm, "turn": turn, "points": points})

    def curves(self) -> list[dict[str, typing.Any]]:
        """Returns all curves."""
        return self._curves

    def all(self) -> list[Measure]:
        """Returns the measures of which any run has told something."""
        return [one for one in self._measures.values() if one.without or one.with_it or one.alone]


def _number(value: float) -> str:
    """Returns it with three digits that tell something."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def _cell(values: list[float]) -> str:
    if not values:
        return "-"
    middle = _number(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({_number(min(values))} to {_number(max(values))})"


def table(measures: typing.Iterable[Measure]) -> list[str]:
    """Returns the lines of a table in Markdown: medians, with the least and the largest run."""
    lines = ["| opportunity | experiment | measure | without | with | ratio | |",
             "|---|---|---|---:|---:|---:|---|"]
    for measure in measures:
        ratio = measure.ratio()
        unit = f", {measure.unit}" if measure.unit else ""
        alone = f"; alone {_cell(measure.alone)}" if measure.alone else ""
        lines.append(f"| {measure.opportunity} | {measure.experiment} | {measure.what}{unit}{alone} | "
                     f"{_cell(measure.without)} | {_cell(measure.with_it)} | "
                     f"{'-' if ratio is None else format(ratio, '.2f')} | {measure.verdict()} |")
    return lines
