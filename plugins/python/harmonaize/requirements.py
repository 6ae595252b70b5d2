"""What was said of a job, and what is granted of it (docs/requirements.md)."""

from __future__ import annotations

import dataclasses
import typing

from harmonaize.documents import Fields, Raw

# The values of one table by the names of their keys, as "collectives.priority". What has a unit is a text.
Values = typing.Mapping[str, typing.Any]


@dataclasses.dataclass(frozen=True)
class Shortfall:
    """A key that is granted less than was asked. `asked` and `granted` are values as a document has them; `granted`
    None: nothing is granted.
    """

    key: str
    asked: str
    granted: str | None
    why: str
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Shortfall:
        """Reads an entry of "shortfalls"."""
        return cls(
            key=fields.text("key"),
            asked=fields.text("asked"),
            granted=fields.optional_text("granted"),
            why=fields.text("why"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Requirements:
    """What was said of a job. `values` are those of keys that hold for the whole job, `overrides` and `launches` the
    tables of these lists, and `text` is the document in TOML that says the same. `changes` counts how often the grant
    has changed on this host.
    """

    job: str
    name: str
    changes: int
    values: Values = dataclasses.field(hash=False)
    overrides: tuple[Values, ...] = dataclasses.field(hash=False)
    launches: tuple[Values, ...] = dataclasses.field(hash=False)
    text: str
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Requirements:
        """Reads /v1/jobs/{job}/requirements."""
        return cls(
            job=fields.text("job"),
            name=fields.text("name"),
            changes=fields.integer("changes"),
            values=fields.fields("values").raw,
            overrides=fields.objects("overrides", _table),
            launches=fields.objects("launches", _table),
            text=fields.text("text"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Grant:
    """What would be granted to a job of the caller's: the fields are those of `Requirements`, with what the provider's
    policy adds. `shortfalls` are the keys that would get less than was asked.
    """

    values: Values = dataclasses.field(hash=False)
    overrides: tuple[Values, ...] = dataclasses.field(hash=False)
    launches: tuple[Values, ...] = dataclasses.field(hash=False)
    text: str
    shortfalls: tuple[Shortfall, ...]
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Grant:
        """Reads /v1/requirements/check."""
        return cls(
            values=fields.fields("values").raw,
            overrides=fields.objects("overrides", _table),
            launches=fields.objects("launches", _table),
            text=fields.text("text"),
            shortfalls=fields.objects("shortfalls", Shortfall.from_fields),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Granted:
    """What a job is granted: the fields are those of `Requirements`, with what the provider's policy adds. `shortfalls`
    are the keys that get less than was asked.
    """

    job: str
    name: str
    changes: int
    values: Values = dataclasses.field(hash=False)
    overrides: tuple[Values, ...] = dataclasses.field(hash=False)
    launches: tuple[Values, ...] = dataclasses.field(hash=False)
    text: str
    shortfalls: tuple[Shortfall, ...]
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Granted:
        """Reads /v1/jobs/{job}/granted."""
        return cls(
            job=fields.text("job"),
            name=fields.text("name"),
            changes=fields.integer("changes"),
            values=fields.fields("values").raw,
            overrides=fields.objects("overrides", _table),
            launches=fields.objects("launches", _table),
            text=fields.text("text"),
            shortfalls=fields.objects("shortfalls", Shortfall.from_fields),
            raw=fields.raw,
        )


def _table(fields: Fields) -> Values:
    return fields.raw
