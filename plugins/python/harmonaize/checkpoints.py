"""When a job should save, what it says of its checkpoints, and how often it has to expect failures."""

from __future__ import annotations

import dataclasses
import datetime
import typing

from harmonaize.documents import Fields, Raw

SavePlace = typing.Literal["memory", "peer", "storage"]


@dataclasses.dataclass(frozen=True)
class Quantiles:
    """An estimate: the value will be below p10 with a probability of 10%, and so on."""

    p10: float
    p50: float
    p90: float

    @classmethod
    def from_fields(cls, fields: Fields) -> Quantiles:
        """Reads three quantiles."""
        return cls(fields.number("p10"), fields.number("p50"), fields.number("p90"))


@dataclasses.dataclass(frozen=True)
class SaveMoment:
    """When to save, and why. `fits` False: no checkpoint can be safe in time. `now`: the window is open. A checkpoint
    should begin before `deadline`, and is likely to take `expected` seconds. `ranks` are at risk, the first 64 of them.
    """

    why: str
    fits: bool
    now: bool
    not_before: datetime.datetime
    deadline: datetime.datetime
    confidence: float
    expected: Quantiles
    ranks: tuple[int, ...]
    text: str
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> SaveMoment:
        """Reads an entry of "moments"."""
        return cls(
            why=fields.text("why"),
            fits=fields.yes("fits"),
            now=fields.yes("now"),
            not_before=fields.time("not_before"),
            deadline=fields.time("deadline"),
            confidence=fields.number("confidence"),
            expected=Quantiles.from_fields(fields.fields("expected")),
            ranks=fields.integers("ranks"),
            text=fields.text("text"),
            raw=fields.raw,
        )


@dataclasses.dataclass(frozen=True)
class SaveEstimate:
    """What a checkpoint takes, in seconds: for how long the job stands still, and until it is safe. `basis` is
    "measured", "stated" or "assumed".
    """

    stall_seconds: float
    seconds: Quantiles
    basis: str

    @classmethod
    def from_fields(cls, fields: Fields) -> SaveEstimate:
        """Reads "usual" or "lasting"."""
        return cls(
            fields.number("stall_seconds"), Quantiles.from_fields(fields.fields("seconds")), fields.text("from")
        )


@dataclasses.dataclass(frozen=True)
class SaveInterval:
    """How long a job works between two checkpoints, and from what that follows. `optimum` is the interval with the
    least time lost for the quantiles of the hazard. `overhead` is the part of the time that checkpoints take.
    """

    seconds: float
    basis: str
    optimum_seconds: float
    optimum: Quantiles
    overhead: float
    expected_lost_seconds: float
    worst_lost_seconds: float
    keeps_most_lost_work: bool
    keeps_overhead_cap: bool

    @classmethod
    def from_fields(cls, fields: Fields) -> SaveInterval:
        """Reads "interval"."""
        return cls(
            seconds=fields.number("seconds"),
            basis=fields.text("from"),
            optimum_seconds=fields.number("optimum_seconds"),
            optimum=Quantiles.from_fields(fields.fields("optimum")),
            overhead=fields.number("overhead"),
            expected_lost_seconds=fields.number("expected_lost_seconds"),
            worst_lost_seconds=fields.number("worst_lost_seconds"),
            keeps_most_lost_work=fields.yes("keeps_most_lost_work"),
            keeps_overhead_cap=fields.yes("keeps_overhead_cap"),
        )


@dataclasses.dataclass(frozen=True)
class FailureRate:
    """Failures of the whole job in a day: the mean, and quantiles of what the rate may be."""

    per_day: float
    spread: Quantiles

    @classmethod
    def from_fields(cls, fields: Fields) -> FailureRate:
        """Reads "hazard", or an entry of its "causes"."""
        return cls(fields.number("per_day"), Quantiles.from_fields(fields))


@dataclasses.dataclass(frozen=True)
class SavedCheckpoint:
    """The newest checkpoint that a job has told of, and when its state was taken; None: it is lost."""

    step: int
    where: str
    epoch_end: bool
    bytes: int | None
    saved: datetime.datetime | None

    @classmethod
    def from_fields(cls, fields: Fields) -> SavedCheckpoint:
        """Reads "last"."""
        return cls(
            step=fields.integer("step"),
            where=fields.text("where"),
            epoch_end=fields.yes("epoch_end"),
            bytes=fields.optional_integer("bytes"),
            saved=fields.optional_time("saved"),
        )


@dataclasses.dataclass(frozen=True)
class CheckpointAdvice:
    """When a job should save: `moments`, the soonest first. `advised`: it hears of them by checkpoint.advised. `usual`
    is what its checkpoints take, `lasting` what those take that outlive a host. `causes` splits the `hazard` by what
    fails; `rank_failures` are failures of the job's own ranks that were seen.
    """

    job: str
    name: str
    advised: bool
    moments: tuple[SaveMoment, ...]
    interval: SaveInterval
    usual: SaveEstimate
    lasting: SaveEstimate
    hazard: FailureRate
    announced_per_day: float
    rank_failures: float
    causes: typing.Mapping[str, FailureRate] = dataclasses.field(hash=False)
    last: SavedCheckpoint | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_fields(cls, fields: Fields) -> CheckpointAdvice:
        """Reads /v1/jobs/{job}/checkpoints/advice."""
        hazard = fields.fields("hazard")
        last = fields.optional_fields("last")
        causes = hazard.objects("causes", lambda one: (one.text("cause"), FailureRate.from_fields(one)))
        return cls(
            job=fields.text("job"),
            name=fields.text("name"),
            advised=fields.yes("advised"),
            moments=fields.objects("moments", SaveMoment.from_fields),
            interval=SaveInterval.from_fields(fields.fields("interval")),
            usual=SaveEstimate.from_fields(fields.fields("usual")),
            lasting=SaveEstimate.from_fields(fields.fields("lasting")),
            hazard=FailureRate.from_fields(hazard),
            announced_per_day=hazard.number("announced_per_day"),
            rank_failures=hazard.number("rank_failures"),
            causes=dict(causes),
            last=None if last is None else SavedCheckpoint.from_fields(last),
            raw=fields.raw,
        )
