"""Draws courses of trainings: the loss over steps and over time, and the number of ranks over time."""

from __future__ import annotations

import pathlib
import typing

from course import Course, Line

# Steps whose losses are averaged for one point: batches differ more than the trainings do.
SMOOTHED_STEPS = 15
# Colours and widths of the courses' lines: those that are drawn first are wider, since courses may be the same.
LINES = (("tab:blue", 4.0), ("tab:orange", 2.0), ("tab:green", 1.0))
INCHES = (9, 11)
DOTS_PER_INCH = 110


def draw(path: pathlib.Path, courses: typing.Sequence[Course]) -> bool:
    """Writes the picture. Returns whether Matplotlib is there to draw it."""
    try:
        import matplotlib  # noqa: PLC0415
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, (over_steps, over_time, ranks) = pyplot.subplots(3, 1, figsize=INCHES, height_ratios=(3, 3, 1))
    for course, (colour, width) in zip(courses, LINES, strict=True):
        _draw_losses(over_steps, over_time, course, colour, width)
        _draw_ranks(ranks, course, colour)
    for axes, label in ((over_steps, "steps"), (over_time, "seconds"), (ranks, "seconds")):
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
    for axes in (over_steps, over_time):
        axes.set_ylabel("loss of the batch")
        axes.set_yscale("log")
        axes.legend()
    ranks.set_ylabel("ranks")
    ranks.set_ylim(0, 1.2 * max(max(course.sizes) for course in courses))
    ranks.yaxis.get_major_locator().set_params(integer=True)
    over_time.set_xlim(left=0)
    ranks.set_xlim(over_time.get_xlim())
    figure.tight_layout()
    figure.savefig(path, dpi=DOTS_PER_INCH)
    pyplot.close(figure)
    return True


def _draw_losses(over_steps: typing.Any, over_time: typing.Any, course: Course, colour: str, width: float) -> None:
    """Draws the losses in the order of time, so that steps that are done again lead back to the left."""
    losses = _smoothed(course.steps)
    steps = [line["step"] for line in course.steps]
    seconds = [course.seconds_of(line["time"]) for line in course.steps]
    over_steps.plot(steps, losses, color=colour, label=course.name, linewidth=width)
    over_time.plot(seconds, losses, color=colour, label=course.name, linewidth=1.5)
    for loss in course.losses():
        over_time.axvline(loss.at_seconds, color=colour, linestyle=":", linewidth=1)
        over_time.annotate(
            f" {loss.what}",
            (loss.at_seconds, 0.98),
            xycoords=("data", "axes fraction"),
            rotation=90,
            verticalalignment="top",
            fontsize="x-small",
            color=colour,
        )
        reached = next((place for place, one in enumerate(seconds) if one >= loss.at_seconds), len(seconds) - 1)
        over_steps.plot(steps[reached], losses[reached], marker="o", color=colour, markersize=5)


def _draw_ranks(axes: typing.Any, course: Course, colour: str) -> None:
    seconds = [course.seconds_of(line["time"]) for line in course.steps]
    axes.step(seconds, [line["ranks"] for line in course.steps], where="post", color=colour, linewidth=1)


def _smoothed(steps: list[Line]) -> list[float]:
    """The mean loss of each step and the steps before it, as many as are averaged. A step that is done again counts
    anew.
    """
    losses: dict[int, float] = {}
    means = []
    for line in steps:
        step = int(line["step"])
        losses[step] = line["loss"]
        averaged = [losses[one] for one in range(step - SMOOTHED_STEPS + 1, step + 1) if one in losses]
        means.append(sum(averaged) / len(averaged))
    return means
