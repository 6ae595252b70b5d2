"""Events with a deadline as the daemon keeps them: what was promised, and what the job has answered."""

from __future__ import annotations

import dataclasses
import datetime

from harmonaize.documents import Fields, Raw


@dataclasses.dataclass(frozen=True)
class Answer:
    """An event with a deadline, and the job's answer to it.

    `event` is the event's id, `told` when the job heard of it, `deadline` by when it happens at the earliest,
    `acknowledged` when the job said that it is ready, `asked` when it asked for more time and `asked_until` until when.
    None: it has not, or there is none. `job_name`, `tenant` and `ended` are for operators.
    """

    event: str
    type: str
    job: str
    ranks: tuple[int, ...]
    ranks_unlisted: int
    told: datetime.datetime | None
    deadline: datetime.datetime | None
    acknowledged: datetime.datetime | None
    asked: datetime.datetime | None
    asked_until: datetime.datetime | None
    job_name: str | None
    tenant: str | None
    ended: bool | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Answer:
        """Reads an answer."""
        return cls(
            event=fields.text("event"),
            type=fields.text("type"),
            job=fields.text("job"),
            ranks=fields.integers("ranks"),
            ranks_unlisted=fields.integer("ranks_unlisted", 0),
            told=fields.optional_time("told"),
            deadline=fields.optional_time("deadline"),
            acknowledged=fields.optional_time("acknowledged"),
            asked=fields.optional_time("asked"),
            asked_until=fields.optional_time("asked_until"),
            job_name=fields.optional_text("job_name"),
            tenant=fields.optional_text("tenant"),
            ended=fields.optional_yes("ended"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Promise:
    """A notice that was promised. `promised_from` is the latest time that was ever named for it; `kept` whether it
    began no earlier, None: it has not begun, or no time was promised; `told` the caller's jobs that heard of it, with
    their answers. The last four are for operators.
    """

    id: str
    kind: str
    promised_from: datetime.datetime | None
    began: datetime.datetime | None
    ended: datetime.datetime | None
    withdrawn: bool
    kept: bool | None
    told: tuple[Answer, ...]
    source: str | None
    announced: datetime.datetime | None
    promised_notice_seconds: float | None
    notice_seconds: float | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Promise:
        """Reads an entry of "promises"."""
        return cls(
            id=fields.text("id"),
            kind=fields.text("kind"),
            promised_from=fields.optional_time("promised_from"),
            began=fields.optional_time("began"),
            ended=fields.optional_time("ended"),
            withdrawn=fields.yes("withdrawn", default=False),
            kept=fields.optional_yes("kept"),
            told=fields.objects("told", Answer.from_fields) if "told" in fields.raw else (),
            source=fields.optional_text("source"),
            announced=fields.optional_time("announced"),
            promised_notice_seconds=fields.optional_number("promised_notice_seconds"),
            notice_seconds=fields.optional_number("notice_seconds"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Promises:
    """The promises, the oldest first, and the ids of the events that can be answered now."""

    promises: tuple[Promise, ...]
    answerable: tuple[str, ...]
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Promises:
        """Reads /v1/promises."""
        return cls(fields.objects("promises", Promise.from_fields), fields.texts("answerable"), fields.raw)
