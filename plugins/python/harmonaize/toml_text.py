"""Documents in TOML, written from mappings. Source: TOML 1.0.0.

Each key is a line with its whole path, and a table in a list is an inline table. So line and column of a daemon's error
lead to the key.
"""

from __future__ import annotations

import collections.abc
import datetime
import json
import re
import typing

from harmonaize.documents import format_time

# A text in TOML, or what it says as a mapping.
TomlDocument = str | typing.Mapping[str, typing.Any]

# Deepest nesting that is written: that of a mapping that holds itself has no end. Daemons read 16.
_DEEPEST = 64
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# TOML's integers have 64 bits.
_LARGEST_INTEGER = 2**63 - 1


def toml_text(document: TomlDocument) -> str:
    """Returns the document as TOML; a text is returned as it is.

    A name with dots is a path: {"faults.late_after": "9 s"} says what {"faults": {"late_after": "9 s"}} does.
    ValueError: TOML has no form for a value, such as None, or for a name that is no text.
    """
    if isinstance(document, str):
        return document
    if not isinstance(document, collections.abc.Mapping):
        raise ValueError(f"a document is a text or a mapping, not {type(document).__name__}")  # noqa: TRY004
    return "".join(f"{path} = {value}\n" for path, value in _lines(document, "", "", 0))


def _lines(
    table: typing.Mapping[str, typing.Any], prefix: str, where: str, depth: int
) -> typing.Iterator[tuple[str, str]]:
    """Yields the path and the value of each key of a table and of the tables in it. `where` stands before paths in
    errors.
    """
    for name, value in table.items():
        path = prefix + _path_text(name, where + prefix)
        if isinstance(value, collections.abc.Mapping):
            _check_depth(depth, where + path)
            yield from _lines(value, f"{path}.", where, depth + 1)
        else:
            yield path, _value_text(value, where + path, depth + 1)


def _path_text(name: typing.Any, prefix: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"TOML has no form for '{prefix}{name!r}': a name is a text")  # noqa: TRY004
    parts = name.split(".")
    return ".".join(
        part if _BARE_KEY.fullmatch(part) else _string_text(part, prefix + ascii(part)[1:-1]) for part in parts
    )


def _value_text(value: typing.Any, path: str, depth: int) -> str:
    match value:
        case bool() | int() | float():
            return _number_text(value, path)
        case str():
            return _string_text(value, path)
        case datetime.datetime() | datetime.date() | datetime.time():
            return _time_text(value, path)
        case list() | tuple():
            _check_depth(depth, path)
            texts = [_value_text(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(value)]
            return "[" + ", ".join(texts) + "]"
        case collections.abc.Mapping():
            _check_depth(depth, path)
            return "{" + ", ".join(f"{name} = {text}" for name, text in _lines(value, "", f"{path}.", depth)) + "}"
    way_out = "leave the key out" if value is None else "durations, rates and sizes are texts with a unit, as '30 s'"
    raise ValueError(f"TOML has no form for '{path}', which is of type {type(value).__name__}: {way_out}")


def _number_text(value: float, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float.__repr__(value)
    if not -_LARGEST_INTEGER - 1 <= value <= _LARGEST_INTEGER:
        raise ValueError(f"TOML has no form for '{path}': its whole numbers have 64 bits")
    return int.__repr__(value)


def _string_text(text: str, path: str) -> str:
    """Returns a basic string. JSON's escapes are TOML's, which wants one for DEL, too."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError(f"TOML has no form for half of a character (a surrogate), which '{path}' has")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _time_text(value: datetime.date | datetime.time, path: str) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat() if value.tzinfo is None else format_time(value)
    if isinstance(value, datetime.time) and value.tzinfo is not None:
        raise ValueError(f"TOML has no form for '{path}': a time of day with a zone")
    return value.isoformat()


def _check_depth(depth: int, path: str) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"'{path[:_DEEPEST]}...' is nested too deeply")
