"""The table that compares courses of a training."""

from __future__ import annotations

import typing

from course import Course

ROWS: tuple[tuple[str, typing.Callable[[Course], str]], ...] = (
    ("test loss", lambda course: f"{course.test_loss:.4f}"),
    ("accuracy", lambda course: f"{course.accuracy:.4f}"),
    ("steps done again", lambda course: str(course.steps_again)),
    ("seconds without a new step", lambda course: f"{course.seconds_lost:.1f}"),
    ("seconds in all", lambda course: f"{course.seconds:.1f}"),
)


def table(courses: typing.Sequence[Course]) -> str:
    """Returns the table, as Markdown: all in all, and for each thing that has happened."""
    lines = ["", "| | " + " | ".join(course.name for course in courses) + " |", "|---|" + "---:|" * len(courses)]
    lines += [_row(name, [value(course) for course in courses]) for name, value in ROWS]
    for losses in zip(*(course.losses() for course in courses if course.moments), strict=True):
        cells = [f"{loss.steps_again} steps, {loss.seconds_lost:.1f} s" for loss in losses]
        lines.append(_row(losses[0].what, [""] * (len(courses) - len(cells)) + cells))
    return "\n".join(lines)


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"
