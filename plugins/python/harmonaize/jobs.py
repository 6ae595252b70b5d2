"""Jobs, their communicators and ranks, and the operations that wait."""

from __future__ import annotations

import dataclasses
import datetime

from harmonaize.documents import Fields, Raw
from harmonaize.verdicts import Verdict


@dataclasses.dataclass(frozen=True)
class Timed:
    """Operations across hosts that were timed, and how long they took together, in seconds."""

    operations: int
    seconds: float
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Timed:
        """Reads "timed"."""
        return cls(fields.integer("operations"), fields.number("seconds"), fields.raw)


@dataclasses.dataclass(frozen=True)
class EndedCommunicators:
    """What communicators of a job did that have ended on this host. `ranks` are those of the largest."""

    count: int
    operations: int
    bytes: int
    ranks: int
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> EndedCommunicators:
        """Reads "ended_communicators"."""
        return cls(
            fields.integer("count"),
            fields.integer("operations"),
            fields.integer("bytes"),
            fields.integer("ranks"),
            fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Forming:
    """A communicator that waits for ranks: `missing` of `size` have not come to the call `operation`. `missing_ranks`
    lists the first 32. `since` is when the first rank began to wait.
    """

    operation: str
    name: str
    size: int
    missing: int
    missing_ranks: tuple[int, ...]
    since: datetime.datetime
    for_seconds: float
    text: str
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Forming:
        """Reads an entry of "forming"."""
        return cls(
            operation=fields.text("operation"),
            name=fields.text("name"),
            size=fields.integer("size"),
            missing=fields.integer("missing"),
            missing_ranks=fields.integers("missing_ranks"),
            since=fields.time("since"),
            for_seconds=fields.number("for_seconds"),
            text=fields.text("text"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class CommunicatorSummary:
    """A communicator in the list of jobs."""

    id: str
    name: str
    size: int
    state: str
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> CommunicatorSummary:
        """Reads an entry of a listed job's "communicators"."""
        return cls(fields.text("id"), fields.text("name"), fields.integer("size"), fields.text("state"), fields.raw)


@dataclasses.dataclass(frozen=True)
class JobSummary:
    """A job in the list. `ended` None: it runs. `stuck` counts communicators in which something waits for long,
    `waiting` operations that wait for ranks. `operations` and `bytes` are those of ended communicators, too. `tenant`
    is for operators.
    """

    id: str
    name: str
    kind: str
    began: datetime.datetime
    ended: datetime.datetime | None
    tenant: str | None
    communicators: tuple[CommunicatorSummary, ...]
    forming: tuple[Forming, ...]
    ended_communicators: EndedCommunicators
    waiting: int
    operations: int
    stuck: int
    bytes: int
    timed: Timed
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> JobSummary:
        """Reads an entry of /v1/jobs."""
        return cls(
            id=fields.text("id"),
            name=fields.text("name"),
            kind=fields.text("kind"),
            began=fields.time("began"),
            ended=fields.optional_time("ended"),
            tenant=fields.optional_text("tenant"),
            communicators=fields.objects("communicators", CommunicatorSummary.from_fields),
            forming=fields.objects("forming", Forming.from_fields),
            ended_communicators=EndedCommunicators.from_fields(fields.fields("ended_communicators")),
            waiting=fields.integer("waiting"),
            operations=fields.integer("operations"),
            stuck=fields.integer("stuck"),
            bytes=fields.integer("bytes"),
            timed=Timed.from_fields(fields.fields("timed")),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Rank:
    """A rank of a communicator: whether it is on the daemon's host, and whether it has left. `process` and `program`
    are for operators.
    """

    rank: int
    here: bool
    left: bool
    process: int | None
    program: str | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Rank:
        """Reads an entry of "ranks"."""
        return cls(
            rank=fields.integer("rank"),
            here=fields.yes("here"),
            left=fields.yes("left"),
            process=fields.optional_integer("process"),
            program=fields.optional_text("program"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class CommunicatorRanks:
    """The ranks of one communicator, which is named by its id."""

    communicator: str
    ranks: tuple[Rank, ...]
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> CommunicatorRanks:
        """Reads an entry of /v1/jobs/{job}/ranks."""
        return cls(fields.text("communicator"), fields.objects("ranks", Rank.from_fields), fields.raw)


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation that waits for ranks, and for how long it has. `communicator` is an id."""

    communicator: str
    operation: str
    for_seconds: float
    missing_ranks: tuple[int, ...]
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields, communicator: str | None = None) -> Operation:
        """Reads an entry of "operations", or of a communicator's "waiting", which does not name it again."""
        return cls(
            communicator=fields.text("communicator", communicator),
            operation=fields.text("operation"),
            for_seconds=fields.number("for_seconds"),
            missing_ranks=fields.integers("missing_ranks"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Communicator:
    """A communicator of a job. `state` is "ready", "revoked", "broken" or "unknown", and `failure` why it is broken;
    `congestion` "none", "mild" or "severe" where it spans hosts; `kind` who carries the data.
    """

    id: str
    name: str
    state: str
    size: int
    operations: int
    bytes: int
    ranks: tuple[Rank, ...]
    waiting: tuple[Operation, ...]
    failure: str | None
    spans_hosts: bool
    congestion: str | None
    kind: str | None
    timed: Timed | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Communicator:
        """Reads an entry of a job's "communicators"."""
        name = fields.text("id")
        timed = fields.optional_fields("timed")
        return cls(
            id=name,
            name=fields.text("name"),
            state=fields.text("state"),
            size=fields.integer("size"),
            operations=fields.integer("operations"),
            bytes=fields.integer("bytes"),
            ranks=fields.objects("ranks", Rank.from_fields),
            waiting=fields.objects("waiting", lambda one: Operation.from_fields(one, name)),
            failure=fields.optional_text("failure"),
            spans_hosts=fields.yes("spans_hosts", default=False),
            congestion=fields.optional_text("congestion"),
            kind=fields.optional_text("kind"),
            timed=None if timed is None else Timed.from_fields(timed),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Job:
    """One job with its communicators, and the verdicts on what hangs. `ended` None: it runs."""

    id: str
    name: str
    kind: str
    began: datetime.datetime
    ended: datetime.datetime | None
    tenant: str | None
    communicators: tuple[Communicator, ...]
    forming: tuple[Forming, ...]
    ended_communicators: EndedCommunicators
    stuck: tuple[Verdict, ...]
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Job:
        """Reads /v1/jobs/{job}."""
        return cls(
            id=fields.text("id"),
            name=fields.text("name"),
            kind=fields.text("kind"),
            began=fields.time("began"),
            ended=fields.optional_time("ended"),
            tenant=fields.optional_text("tenant"),
            communicators=fields.objects("communicators", Communicator.from_fields),
            forming=fields.objects("forming", Forming.from_fields),
            ended_communicators=EndedCommunicators.from_fields(fields.fields("ended_communicators")),
            stuck=fields.objects("stuck", Verdict.from_fields),
            raw=fields.raw,
        )
