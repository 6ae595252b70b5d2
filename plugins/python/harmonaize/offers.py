"""Offers of the provider to jobs that run, and what is answered to them."""

from __future__ import annotations

import dataclasses
import datetime
import typing

from harmonaize.documents import Fields, Raw, format_time

OfferKind = typing.Literal["grow", "reclaim", "move", "slow_down"]
END_STATES = frozenset({"declined", "expired", "withdrawn", "fulfilled", "broken"})


@dataclasses.dataclass(frozen=True)
class OfferTerms:
    """What one party proposes: how many ranks, which (empty: the job chooses), due when, at what price."""

    ranks: int
    which: tuple[int, ...]
    due: datetime.datetime | None
    price: float | None
    bytes_per_second: float | None

    @classmethod
    def from_fields(cls, fields: Fields) -> OfferTerms:
        """Reads the terms in an offer, or in its counter-proposal."""
        return cls(
            ranks=fields.integer("ranks"),
            which=fields.integers("which"),
            due=fields.optional_time("due"),
            price=fields.optional_number("price"),
            bytes_per_second=fields.optional_number("bytes_per_second"),
        )


@dataclasses.dataclass(frozen=True)
class Offer:
    """An offer as it is. `kind` is grow, reclaim, move or slow_down; docs/http.md lists the states.

    Ranks are numbered as in the job's largest communicator, whose name is `communicator`, and whose size is `of_ranks`;
    0: none are named. `announcement` is the id of the announcement that it follows from; "": none.
    `expected_step_seconds` is how long a step is expected to take once the offer is fulfilled; None: nothing is said.
    """

    id: str
    revision: int
    job: str
    job_name: str
    kind: str
    state: str
    terms: OfferTerms
    communicator: str
    of_ranks: int
    counter: OfferTerms | None
    round: int
    most_rounds: int
    deadline: datetime.datetime | None
    can_be_refused: bool
    purpose: str
    reason: str
    broken_by: str | None
    announcement: str
    expected_step_seconds: float | None
    raw: Raw = dataclasses.field(repr=False, compare=False)

    @property
    def ended(self) -> bool:
        """Tells whether nothing of it changes any more."""
        return self.state in END_STATES

    @property
    def takes_ranks(self) -> bool:
        """Tells whether ranks are to leave by it."""
        return self.kind in {"reclaim", "move"}

    @classmethod
    def from_fields(cls, fields: Fields) -> Offer:
        """Reads /v1/offers/{id}."""
        counter = fields.optional_fields("counter")
        expected = fields.optional_fields("expected")
        return cls(
            id=fields.text("id"),
            revision=fields.integer("revision"),
            job=fields.text("job"),
            job_name=fields.text("job_name", ""),
            kind=fields.text("kind"),
            state=fields.text("state"),
            terms=OfferTerms.from_fields(fields),
            communicator=fields.text("communicator", ""),
            of_ranks=fields.integer("of_ranks", 0),
            counter=None if counter is None else OfferTerms.from_fields(counter),
            round=fields.integer("round", 0),
            most_rounds=fields.integer("most_rounds", 0),
            deadline=fields.optional_time("deadline"),
            can_be_refused=fields.yes("can_be_refused", default=True),
            purpose=fields.text("purpose", ""),
            reason=fields.text("reason", ""),
            broken_by=fields.optional_text("broken_by"),
            announcement=fields.text("announcement", ""),
            expected_step_seconds=None if expected is None else expected.optional_number("step_seconds"),
            raw=fields.raw,
        )


class AnswerTerms(typing.TypedDict, total=False):
    """What a counter-proposal may name; the rest stays as it was offered. `due_within_seconds` is `due` from now on."""

    ranks: int
    which: typing.Sequence[int]
    due: datetime.datetime
    due_within_seconds: float
    price: float
    bytes_per_second: float
    reason: str


class ProposedTerms(AnswerTerms, total=False):
    """What an operator may propose instead, and until when that may be answered."""

    deadline: datetime.datetime
    within_seconds: float


class OfferOrder(typing.TypedDict, total=False):
    """What an operator may say of an offer besides its job and kind. `deadline` or `within_seconds` says until when it
    may be answered; a counter-proposal within `least_ranks`, `latest_due` and `least_price` is taken at once.
    """

    ranks: int
    which: typing.Sequence[int]
    deadline: datetime.datetime
    within_seconds: float
    due: datetime.datetime
    due_within_seconds: float
    price: float
    bytes_per_second: float
    least_ranks: int
    latest_due: datetime.datetime
    latest_due_within_seconds: float
    least_price: float
    rounds: int
    can_be_refused: bool
    enforced: bool
    urgency: typing.Literal["low", "normal", "high"]
    purpose: str
    insist: bool


def body_of(terms: typing.Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    """Returns the body of a request that names these terms. ValueError: a moment has no time zone."""
    return {name: _plain(value) for name, value in terms.items()}


def _plain(value: typing.Any) -> typing.Any:
    if isinstance(value, datetime.datetime):
        return format_time(value)
    return list(value) if isinstance(value, (tuple, range)) else value
