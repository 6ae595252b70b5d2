"""What a daemon tells a job: events, and the notice that some were missed. docs/events.md lists the types."""

from __future__ import annotations

import dataclasses
import datetime
import typing

from harmonaize.documents import Fields, Raw, parse_time
from harmonaize.errors import AnswerError

TYPE_PREFIX = "io.harmonaize."
MISSED_TYPE = TYPE_PREFIX + "events.missed"
_JOB_SOURCE = "/harmonaize/jobs/"


@dataclasses.dataclass(frozen=True)
class Event:
    """One event, as CloudEvents 1.0 has it.

    `id` is the same at all hosts, and `type` begins with "io.harmonaize.". `subject` says what of the job it is about
    ("ranks/3"); None: the whole job. `time` is when it happened, in UTC. `sequence` is its number among those of its
    job at this daemon. `severity` is INFO, WARN, ERROR or FATAL, and `severity_number` 9, 13, 17 or 21. `job` is the
    job's id; None: it is about the host. `data` is what the type's schema says. `expires` is when it is of no use any
    more; None: never. `tenant` says whose job it is, for operators.

    `cursor` is what `after` takes to go on behind it. In a stream it also says where this daemon keeps the event, so
    that a reader hears how many it has missed even when the event itself is kept no more.
    """

    id: str
    type: str
    source: str
    subject: str | None
    time: datetime.datetime
    sequence: int | None
    severity: str
    severity_number: int
    job: str | None
    data: Raw = dataclasses.field(hash=False)
    expires: datetime.datetime | None
    tenant: str | None
    cursor: str
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_document(cls, document: typing.Any, cursor: str | None = None) -> Event:
        """Reads an event. AnswerError: it is none."""
        fields = Fields(document, "an event")
        source = fields.text("source")
        sequence = fields.optional_text("sequence")
        if sequence is not None and not (sequence.isascii() and sequence.isdigit()):
            raise AnswerError("the daemon's answer is malformed: 'sequence' of an event is no number")
        return cls(
            id=fields.text("id"),
            type=fields.text("type"),
            source=source,
            subject=fields.optional_text("subject"),
            time=fields.time("time"),
            sequence=None if sequence is None else int(sequence[:32]),
            severity=fields.text("severitytext", ""),
            severity_number=fields.integer("severitynumber", 0),
            job=source.removeprefix(_JOB_SOURCE) if source.startswith(_JOB_SOURCE) else None,
            data=fields.fields("data").raw,
            expires=fields.optional_time("expirytime"),
            tenant=fields.optional_text("tenant"),
            cursor=cursor or fields.text("id"),
            raw=fields.raw,
        )

    @property
    def name(self) -> str:
        """The type without "io.harmonaize.": "rank.lost"."""
        return self.type.removeprefix(TYPE_PREFIX)

    @property
    def text(self) -> str:
        """All of it in one sentence, for people; "" where it has none."""
        text = self.data.get("text")
        return text if isinstance(text, str) else ""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that it concerns, as far as it lists them. `data["ranks_unlisted"]` counts the others."""
        ranks = self.data.get("ranks")
        return tuple(rank for rank in ranks if isinstance(rank, int)) if isinstance(ranks, list) else ()

    @property
    def deadline(self) -> datetime.datetime | None:
        """By when it asks for something, in UTC: `deadline` of its data, or `not_before`. None: it names no time."""
        for name in ("deadline", "not_before"):
            value = self.data.get(name)
            if isinstance(value, str):
                try:
                    return parse_time(value)
                except ValueError:
                    continue
        return None

    @property
    def recommended_action(self) -> str | None:
        """What the provider would do in the job's place, such as "checkpoint"; None: it recommends nothing."""
        action = self.data.get("recommended_action")
        return action if isinstance(action, str) else None


@dataclasses.dataclass(frozen=True)
class Missed:
    """Events came after the reader's place, and the daemon keeps them no more.

    `count` says how many, whatever types the reader wants; with a job they are the job's. What a reader has learned
    from events may be out of date then: it asks anew.
    """

    count: int
    text: str
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_document(cls, document: typing.Any) -> Missed:
        """Reads a stream's notice. AnswerError: it is none."""
        fields = Fields(document, "a notice of missed events")
        return cls(count=fields.integer("missed"), text=fields.text("text", ""), raw=fields.raw)

    @property
    def type(self) -> str:
        """As a stream has it: "io.harmonaize.events.missed"."""
        return MISSED_TYPE

    @property
    def name(self) -> str:
        """The type without "io.harmonaize."."""
        return MISSED_TYPE.removeprefix(TYPE_PREFIX)


@dataclasses.dataclass(frozen=True)
class EventType:
    """A type of events: its severity, the path of the JSON Schema of its data, and when it is told."""

    type: str
    severity: str
    schema: str
    when: str
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> EventType:
        """Reads an entry of /v1/event-types."""
        return cls(fields.text("type"), fields.text("severity"), fields.text("schema"), fields.text("when"), fields.raw)
