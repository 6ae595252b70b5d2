"""Why operations do not end, and which ranks are the cause. docs/diagnosis.md has the classes."""

from __future__ import annotations

import dataclasses
import datetime

from harmonaize.documents import Fields, Raw


@dataclasses.dataclass(frozen=True)
class VerdictOperation:
    """The operation that does not end. `sequence` is a collective's number at the daemon; `from_rank` and `to_rank` are
    those of a send and its receive. None: it has none.
    """

    name: str
    sequence: int | None
    from_rank: int | None
    to_rank: int | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> VerdictOperation:
        """Reads "operation"."""
        return cls(
            name=fields.text("name"),
            sequence=fields.optional_integer("sequence"),
            from_rank=fields.optional_integer("from"),
            to_rank=fields.optional_integer("to"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Root:
    """A rank that keeps others waiting and waits for nobody. `communicator` is a name, or an id where it has none."""

    rank: int
    communicator: str
    class_: str
    doing: str
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Root:
        """Reads an entry of "roots"."""
        return cls(
            fields.integer("rank"), fields.text("communicator"), fields.text("class"), fields.text("doing"), fields.raw
        )


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What keeps an operation of a communicator from ending.

    `class_` is the document's "class": "computing", "not_called", "not_filled", "mismatch", "dead" and others; `fault`
    says whether somebody has to do something about it, and `way_out` what. `ranks` are those that the operation waits
    for, `roots` those that are the cause. `since` is when the first rank began to wait. `communicator` None: it has not
    formed. `operation` None: the communicator failed between operations. `tenant` is for operators, of `all_stuck`.
    """

    job: str
    job_name: str
    tenant: str | None
    communicator: str | None
    communicator_name: str
    operation: VerdictOperation | None
    class_: str
    fault: bool
    ranks: tuple[int, ...]
    roots: tuple[Root, ...]
    doing: str
    since: datetime.datetime
    for_seconds: float
    stage: str | None
    way_out: str | None
    text: str
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields, job: str | None = None, job_name: str | None = None) -> Verdict:
        """Reads a verdict. In a flight recorder it does not name its job again."""
        operation = fields.optional_fields("operation")
        return cls(
            job=fields.text("job", job),
            job_name=fields.text("job_name", job_name),
            tenant=fields.optional_text("tenant"),
            communicator=fields.optional_text("communicator"),
            communicator_name=fields.text("communicator_name"),
            operation=None if operation is None else VerdictOperation.from_fields(operation),
            class_=fields.text("class"),
            fault=fields.yes("fault"),
            ranks=fields.integers("ranks"),
            roots=fields.objects("roots", Root.from_fields),
            doing=fields.text("doing"),
            since=fields.time("since"),
            for_seconds=fields.number("for_seconds"),
            stage=fields.optional_text("stage"),
            way_out=fields.optional_text("way_out"),
            text=fields.text("text"),
            raw=fields.raw,
        )
