"""What each rank of a job has posted, and what of that has not ended."""

from __future__ import annotations

import dataclasses
import typing

from harmonaize.documents import Fields, Raw
from harmonaize.verdicts import Verdict


@dataclasses.dataclass(frozen=True)
class FlightOperation:
    """An operation that has not ended. `count` is the number of elements of one block. `sequence` is a collective's;
    `peer` the other rank of a send or a receive. `state` is "scheduled" or "started". Moments are nanoseconds since
    1970; `ready_unix_ns` None: its stream has not come to it.
    """

    name: str
    collective: str
    sequence: int | None
    peer: int | None
    root: int | None
    count: int
    type: str
    state: str
    posted_unix_ns: int
    ready_unix_ns: int | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> FlightOperation:
        """Reads an entry of a rank's "operations"."""
        return cls(
            name=fields.text("name"),
            collective=fields.text("collective"),
            sequence=fields.optional_integer("sequence"),
            peer=fields.optional_integer("peer"),
            root=fields.optional_integer("root"),
            count=fields.integer("count"),
            type=fields.text("type"),
            state=fields.text("state"),
            posted_unix_ns=fields.integer("posted_unix_ns"),
            ready_unix_ns=fields.optional_integer("ready_unix_ns"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class FlightRank:
    """A rank on this host: collectives that it has posted to the daemon, and how many have ended for it; operations by
    kind; those that have not ended. `process` is for operators.
    """

    rank: int
    posted: int
    ended: int
    counts: typing.Mapping[str, int] = dataclasses.field(hash=False)
    operations: tuple[FlightOperation, ...]
    process: int | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> FlightRank:
        """Reads an entry of a communicator's "ranks"."""
        counts = fields.fields("counts")
        return cls(
            rank=fields.integer("rank"),
            posted=fields.integer("posted"),
            ended=fields.integer("ended"),
            counts={name: counts.integer(name) for name in counts.raw},
            operations=fields.objects("operations", FlightOperation.from_fields),
            process=fields.optional_integer("process"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class FlightCommunicator:
    """A communicator: `begun` collectives at the daemon, `inline_operations` that the ranks say they carried out
    themselves, the ranks on this host, those that have left, and the verdict where something hangs. `whole` says
    whether all that is in flight is listed.
    """

    id: str
    name: str
    size: int
    state: str
    begun: int
    inline_operations: int
    ranks: tuple[FlightRank, ...]
    left: tuple[int, ...]
    whole: bool
    stuck: Verdict | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields, job: str, job_name: str) -> FlightCommunicator:
        """Reads an entry of "communicators"."""
        stuck = fields.optional_fields("stuck")
        return cls(
            id=fields.text("id"),
            name=fields.text("name"),
            size=fields.integer("size"),
            state=fields.text("state"),
            begun=fields.integer("begun"),
            inline_operations=fields.integer("inline_operations"),
            ranks=fields.objects("ranks", FlightRank.from_fields),
            left=fields.integers("left"),
            whole=fields.yes("whole"),
            stuck=None if stuck is None else Verdict.from_fields(stuck, job, job_name),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class Flight:
    """The flight recorder of one job."""

    id: str
    name: str
    communicators: tuple[FlightCommunicator, ...]
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> Flight:
        """Reads /v1/jobs/{job}/flight."""
        job, name = fields.text("id"), fields.text("name")
        communicators = fields.objects(
            "communicators", lambda communicator: FlightCommunicator.from_fields(communicator, job, name)
        )
        return cls(job, name, communicators, fields.raw)
