"""JSON documents of a daemon, whose fields are read with the types that they should have.

Fields that nobody asks for are left alone: a newer daemon may have more.
"""

from __future__ import annotations

import datetime
import json
import math
import typing

from harmonaize.errors import AnswerError

Raw = typing.Mapping[str, typing.Any]
T = typing.TypeVar("T")


def parse_json(text: bytes | str) -> typing.Any:
    """Returns the value. AnswerError: it is no JSON, or nested too deeply."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise AnswerError("the daemon's answer is nested too deeply") from error
    except ValueError as error:
        raise AnswerError(f"the daemon's answer is no JSON: {error}") from error


def _refuse_constant(name: str) -> typing.NoReturn:
    raise ValueError(f"{name} is no number")


def parse_time(text: str) -> datetime.datetime:
    """Returns the moment, in UTC. ValueError: it is no time of RFC 3339."""
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text[:64]!r} has no zone")
    try:
        return moment.astimezone(datetime.UTC)
    except OverflowError as error:
        raise ValueError(str(error)) from error


def format_time(moment: datetime.datetime) -> str:
    """Returns the moment as a daemon takes it: in UTC, with a Z. ValueError: it has no time zone."""
    if moment.tzinfo is None:
        raise ValueError("the moment has no time zone: use datetime.now(datetime.UTC) and the like")
    return moment.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


class Fields:
    """An object of a document, and what it is, for errors."""

    def __init__(self, value: typing.Any, what: str) -> None:
        """Takes an object. AnswerError: the value is none."""
        if not isinstance(value, dict):
            raise AnswerError(f"the daemon's answer is malformed: {what} is no object")
        self.raw: Raw = value
        self._what = what

    def text(self, name: str, default: str | None = None) -> str:
        """Returns a text; without a default it has to be there."""
        value = self.raw.get(name, default)
        return value if isinstance(value, str) else self._refuse(name, "a text")

    def optional_text(self, name: str) -> str | None:
        """Returns a text; None where it is absent or null."""
        return None if self.raw.get(name) is None else self.text(name)

    def integer(self, name: str, default: int | None = None) -> int:
        """Returns a whole number."""
        value = self.raw.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self._refuse(name, "a whole number")
        return value

    def optional_integer(self, name: str) -> int | None:
        """Returns a whole number; None where it is absent or null."""
        return None if self.raw.get(name) is None else self.integer(name)

    def number(self, name: str, default: float | None = None) -> float:
        """Returns a finite number."""
        value = self.raw.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return self._refuse(name, "a number")
        try:
            number = float(value)
        except OverflowError:
            return self._refuse(name, "a number that is this large")
        return number if math.isfinite(number) else self._refuse(name, "a finite number")

    def optional_number(self, name: str) -> float | None:
        """Returns a finite number; None where it is absent or null."""
        return None if self.raw.get(name) is None else self.number(name)

    def yes(self, name: str, *, default: bool | None = None) -> bool:
        """Returns true or false."""
        value = self.raw.get(name, default)
        return value if isinstance(value, bool) else self._refuse(name, "true or false")

    def optional_yes(self, name: str) -> bool | None:
        """Returns true or false; None where it is absent or null."""
        return None if self.raw.get(name) is None else self.yes(name)

    def time(self, name: str) -> datetime.datetime:
        """Returns a moment, in UTC."""
        try:
            return parse_time(self.text(name))
        except ValueError:
            return self._refuse(name, "a time")

    def optional_time(self, name: str) -> datetime.datetime | None:
        """Returns a moment, in UTC; None where it is absent or null."""
        return None if self.raw.get(name) is None else self.time(name)

    def fields(self, name: str) -> Fields:
        """Returns the object with this name."""
        return Fields(self.raw.get(name), f"'{name}' of {self._what}")

    def optional_fields(self, name: str) -> Fields | None:
        """Returns the object with this name; None where it is absent or null."""
        return None if self.raw.get(name) is None else self.fields(name)

    def objects(self, name: str, make: typing.Callable[[Fields], T]) -> tuple[T, ...]:
        """Returns what `make` makes of each object of a list."""
        what = f"an entry of '{name}' of {self._what}"
        return tuple(make(Fields(value, what)) for value in self._list(name))

    def integers(self, name: str) -> tuple[int, ...]:
        """Returns a list of whole numbers; () where it is absent."""
        values = self._list(name) if name in self.raw else []
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            self._refuse(name, "a list of whole numbers")
        return tuple(values)

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns a list of texts; () where it is absent."""
        values = self._list(name) if name in self.raw else []
        if not all(isinstance(value, str) for value in values):
            self._refuse(name, "a list of texts")
        return tuple(values)

    def _list(self, name: str) -> list[typing.Any]:
        value = self.raw.get(name)
        return value if isinstance(value, list) else self._refuse(name, "a list")

    def _refuse(self, name: str, expected: str) -> typing.NoReturn:
        raise AnswerError(f"the daemon's answer is malformed: '{name}' of {self._what} is not {expected}")
