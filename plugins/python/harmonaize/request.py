"""Requests of HTTP as bytes."""

from __future__ import annotations

import dataclasses
import json
import typing
import urllib.parse

Query = typing.Mapping[str, str | int | None]


@dataclasses.dataclass(frozen=True)
class Request:
    """A request: the path is encoded; what is None in the query is left out; `body` is sent as JSON, `toml` as TOML."""

    method: str
    path: str
    query: Query = dataclasses.field(default_factory=dict)
    headers: typing.Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: typing.Any = None
    toml: str | None = None

    def to_bytes(self, host: str, token: str | None) -> bytes:
        """Returns what is sent. ValueError: the body is no JSON, or the text is not to be had in UTF-8."""
        lines = [f"{self.method} {self._target()} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        content = b""
        if self.body is not None:
            content = json.dumps(self.body, allow_nan=False).encode()
            lines.append("Content-Type: application/json")
        elif self.toml is not None:
            content = self.toml.encode()
            lines.append("Content-Type: application/toml")
        if content or self.method in {"POST", "PUT"}:
            lines.append(f"Content-Length: {len(content)}")
        return "\r\n".join([*lines, "", ""]).encode("ascii") + content

    def _target(self) -> str:
        named = {name: value for name, value in self.query.items() if value is not None}
        return self.path + ("?" + urllib.parse.urlencode(named) if named else "")


def path_of(*parts: str) -> str:
    """Returns a path of these parts, each encoded whole. ValueError: a part that no path can have."""
    for part in parts:
        if part in {"", ".", ".."}:
            raise ValueError(f"{part!r} cannot stand in a path")
    return "/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)


def check_header_value(value: str, what: str) -> str:
    """Returns the value. ValueError: it cannot stand in a header."""
    if not value.isascii() or not value.isprintable() or not value or value != value.strip():
        raise ValueError(f"{what} has to be visible ASCII characters, not {value[:64]!r}")
    return value
