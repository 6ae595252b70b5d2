"""Mappings become documents in TOML, or are refused."""

from __future__ import annotations

import datetime
import enum
import tomllib
import typing

import pytest

from harmonaize.toml_text import toml_text


def test_a_text_stays_as_it_is() -> None:
    assert toml_text("no = TOML = at all") == "no = TOML = at all"


def test_each_key_is_a_line_with_its_path() -> None:
    document = {
        "collectives": {
            "objective": "latency",
            "compression": {"allow": ["bf16"], "error_bound": 1e-6},
            "override": [{"communicator": "tp*", "compression": {"allow": ()}}, {}],
        },
        "faults": {},
    }
    assert toml_text(document).splitlines() == [
        'collectives.objective = "latency"',
        'collectives.compression.allow = ["bf16"]',
        "collectives.compression.error_bound = 1e-06",
        'collectives.override = [{communicator = "tp*", compression.allow = []}, {}]',
    ]


def test_a_name_with_dots_is_a_path() -> None:
    nested = {"faults": {"late_after": "9 s"}}
    assert toml_text({"faults.late_after": "9 s"}) == toml_text(nested)
    assert tomllib.loads(toml_text(nested)) == nested


class _Kind(enum.StrEnum):
    BATCH = "batch"


class _Level(enum.IntEnum):
    HIGH = 3


def test_a_parser_reads_what_was_written() -> None:
    document: dict[str, typing.Any] = {
        "texts": ["", 'a "quoted" \\ one', "two\nlines\t\0\x1b\x7f\x85\u2028", "größer \U0001f600", _Kind.BATCH],
        "numbers": [0, -1, 2**63 - 1, -(2**63), _Level.HIGH, 0.1, 1e-6, 1e300, -0.0, float("inf")],
        "yes": True,
        "no": False,
        "moment": datetime.datetime(2027, 1, 31, 18, 30, 0, 250000, datetime.UTC),
        "local": datetime.datetime(2027, 1, 31, 18, 30),  # noqa: DTZ001
        "day": datetime.date(2027, 1, 31),
        "time": datetime.time(18, 30),
        "lists": [[1, [2]], [], [{"a": {"b": [{"c": 1}]}}]],
        "an odd name": {"": {"ü\n": 1}},
    }
    text = toml_text(document)
    assert tomllib.loads(text) == document
    # A line of the document is a key's: no text breaks it.
    assert all(" = " in line for line in text.split("\n")[:-1])


def test_a_moment_is_written_in_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=3, seconds=7))
    assert toml_text({"deadline": datetime.datetime(2027, 1, 31, 3, 0, 7, tzinfo=zone)}) == (
        "deadline = 2027-01-31T00:00:00Z\n"
    )


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"job": {"name": None}}, "'job.name', which is of type NoneType: leave the key out"),
        ({"faults": {"late_after": datetime.timedelta(seconds=9)}}, "timedelta.*texts with a unit"),
        ({"collectives": {"override": [{}, {"priority": None}]}}, r"'collectives\.override\[1\]\.priority'"),
        ({"a": b"bytes"}, "bytes"),
        ({"a": {1, 2}}, "set"),
        ({"a": 2**63}, "64 bits"),
        ({"a": -(2**63) - 1}, "64 bits"),
        ({"a": 1j}, "complex"),
        ({"a": "\ud800"}, "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({"a": datetime.time(1, tzinfo=datetime.UTC)}, "a time of day with a zone"),
        ({1: 2}, "a name is a text"),
        ({"a": {None: 2}}, "'a.None'"),
        ([("a", 1)], "a text or a mapping, not list"),
        (b"a = 1", "a text or a mapping, not bytes"),
    ],
)
def test_what_toml_has_no_form_for_is_refused(document: typing.Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        toml_text(document)


def test_what_holds_itself_is_refused() -> None:
    table: dict[str, typing.Any] = {}
    table["a"] = table
    items: list[typing.Any] = []
    items.append(items)
    for document in (table, {"a": items}, {"a": [table]}):
        with pytest.raises(ValueError, match="nested too deeply"):
            toml_text(document)
