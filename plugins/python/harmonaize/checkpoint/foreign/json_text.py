"""Reads JSON that a stranger wrote."""

from __future__ import annotations

import json
import typing

from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted


def parse_json(data: bytes, where: str) -> dict[str, typing.Any]:
    """Returns a JSON object. ForeignFormatError: it is none, a name is there twice, or it is nested too deeply."""
    try:
        value = json.loads(data.decode(), object_pairs_hook=lambda pairs: _unique(pairs, where))
    except (ValueError, RecursionError) as error:
        raise ForeignFormatError(f"{where} has a description that is no JSON: {type(error).__name__}") from error
    if not isinstance(value, dict):
        raise ForeignFormatError(f"{where} has a description that is no JSON object")
    return value


def _unique(pairs: list[tuple[str, typing.Any]], where: str) -> dict[str, typing.Any]:
    found: dict[str, typing.Any] = {}
    for name, value in pairs:
        if name in found:
            raise ForeignFormatError(f"{where} describes {quoted(name)} twice")
        found[name] = value
    return found
