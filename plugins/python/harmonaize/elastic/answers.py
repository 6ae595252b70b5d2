"""What a job answers to offers of the provider."""

from __future__ import annotations

import dataclasses
import datetime
import typing

from harmonaize.client import Client
from harmonaize.elastic.world import World
from harmonaize.offers import AnswerTerms, Offer


@dataclasses.dataclass(frozen=True)
class Accept:
    """Agrees to an offer as it is."""


@dataclasses.dataclass(frozen=True)
class Decline:
    """Refuses an offer. The job does not want to be asked for the same for so many seconds."""

    reason: str = ""
    not_again_seconds: float = 0


@dataclasses.dataclass(frozen=True)
class Counter:
    """Asks for something else. What is None stays as it was offered; `which` names the ranks that leave or move."""

    ranks: int | None = None
    which: typing.Sequence[int] | None = None
    due: datetime.datetime | None = None
    price: float | None = None
    reason: str = ""


Answer = Accept | Decline | Counter


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Fewest and most ranks that the job may have once all is done that was agreed on."""

    fewest: int
    most: int

    @classmethod
    def of(cls, world: World, accepted: typing.Iterable[Offer]) -> Sizes:
        """Returns those of the present ranks. Ranks of an offer that have come or left before all have count again."""
        fewest = most = world.size
        for offer in accepted:
            if offer.kind == "grow":
                most += offer.terms.ranks
            elif offer.takes_ranks:
                fewest -= offer.terms.ranks
        return cls(fewest, most)


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Answers by the number of ranks that the job is to keep. `most_ranks` is None where any number is welcome."""

    least_ranks: int
    most_ranks: int | None

    def answer(self, offer: Offer, sizes: Sizes) -> Answer | None:
        """Accepts what fits, asks once for fewer ranks where some fit, and declines the rest. None: an offer that does
        not fit, and cannot be refused.
        """
        room = self._room(offer, sizes)
        if room is None or offer.terms.ranks <= room:
            return Accept()
        if room > 0 and offer.round == 0 and offer.most_rounds > 0:
            return Counter(ranks=room, reason="more do not fit the job's bounds")
        return Decline("it does not fit the job's bounds") if offer.can_be_refused else None

    def _room(self, offer: Offer, sizes: Sizes) -> int | None:
        """Returns how many ranks of the offer fit; None: all."""
        if offer.takes_ranks:
            return sizes.fewest - self.least_ranks
        if offer.kind == "grow" and self.most_ranks is not None:
            return self.most_ranks - sizes.most
        return None


def give(client: Client, offer: Offer, answer: Answer) -> Offer:
    """Gives an answer to the offer as it was read, and returns what it has become. ProblemError 409: it has changed
    since, or cannot be answered so; the others are those of Client.accept_offer.
    """
    revision = offer.revision
    if isinstance(answer, Accept):
        return client.accept_offer(offer, revision=revision)
    if isinstance(answer, Decline):
        return client.decline_offer(offer, not_again=answer.not_again_seconds, reason=answer.reason, revision=revision)
    if isinstance(answer, Counter):
        return client.counter_offer(offer, revision=revision, **_terms_of(answer))
    raise TypeError(f"an offer is answered by Accept, Decline, Counter or None, not by {answer!r}")


def _terms_of(counter: Counter) -> AnswerTerms:
    terms = AnswerTerms()
    if counter.ranks is not None:
        terms["ranks"] = counter.ranks
    if counter.which is not None:
        terms["which"] = tuple(counter.which)
    if counter.due is not None:
        terms["due"] = counter.due
    if counter.price is not None:
        terms["price"] = counter.price
    if counter.reason:
        terms["reason"] = counter.reason
    return terms
