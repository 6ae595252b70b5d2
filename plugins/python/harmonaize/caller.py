"""Who the caller is to the daemon, and what it has used."""

from __future__ import annotations

import dataclasses
import datetime

from harmonaize.documents import Fields, Raw


@dataclasses.dataclass(frozen=True)
class Caller:
    """The caller's `scope`: "tenant", "operator" or "operator-read-only"; `tenant` None: it is an operator."""

    scope: str
    tenant: str | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Caller:
        """Reads /v1/whoami."""
        return cls(fields.text("scope"), fields.optional_text("tenant"), fields.raw)


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a tenant has used of this host since a moment. The claimed operations are those that ranks say they carried
    out themselves. `worker_seconds` and `request_seconds` are the time of the daemon's threads.
    """

    tenant: str
    identity: str
    since: datetime.datetime
    operations: int
    bytes: int
    claimed_inline_operations: int
    claimed_inline_bytes: int
    worker_seconds: float
    request_seconds: float
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Usage:
        """Reads an entry of /v1/usage."""
        return cls(
            tenant=fields.text("tenant"),
            identity=fields.text("identity"),
            since=fields.time("since"),
            operations=fields.integer("operations"),
            bytes=fields.integer("bytes"),
            claimed_inline_operations=fields.integer("claimed_inline_operations"),
            claimed_inline_bytes=fields.integer("claimed_inline_bytes"),
            worker_seconds=fields.number("worker_seconds"),
            request_seconds=fields.number("request_seconds"),
            raw=fields.raw,
        )
