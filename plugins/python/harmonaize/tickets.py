"""The tickets by which new processes join a running job."""

from __future__ import annotations

import dataclasses
import datetime

from harmonaize.documents import Fields, Raw


@dataclasses.dataclass(frozen=True)
class Ticket:
    """A ticket without its secret. `uses` are left: no newcomer has them, or holds one while it waits."""

    id: str
    uses: int
    made: datetime.datetime
    expires: datetime.datetime
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Ticket:
        """Reads one of the tickets in /v1/jobs/{job}/tickets."""
        return cls(
            id=fields.text("id"),
            uses=fields.integer("uses"),
            made=fields.time("made"),
            expires=fields.time("expires"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class NewTicket:
    """A ticket that was just made. `ticket` is the secret, which hzJoinJob takes; a repr does not show it."""

    id: str
    uses: int
    expires: datetime.datetime
    ticket: str = dataclasses.field(repr=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> NewTicket:
        """Reads the answer to POST /v1/jobs/{job}/tickets."""
        return cls(
            id=fields.text("id"),
            uses=fields.integer("uses"),
            expires=fields.time("expires"),
            ticket=fields.text("ticket"),
        )


@dataclasses.dataclass(frozen=True)
class Tickets:
    """The tickets of a job that can be used, `more` beyond those, and how many newcomers wait for a place."""

    tickets: tuple[Ticket, ...]
    more: int
    waiting: int
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Tickets:
        """Reads /v1/jobs/{job}/tickets."""
        return cls(
            tickets=fields.objects("tickets", Ticket.from_fields),
            more=fields.integer("more"),
            waiting=fields.integer("waiting"),
            raw=fields.raw,
        )
