"""Which ranks of a communicator have left, as the host's daemon tells it."""

from __future__ import annotations

import dataclasses

import harmonaize
from harmonaize.client import Client


@dataclasses.dataclass(frozen=True)
class Sight:
    """What the daemon says of a communicator. `known`: there is such a one. A rank that has left stays so."""

    known: bool
    left: frozenset[int]


@dataclasses.dataclass(frozen=True)
class FormingSight:
    """Who has not come to a communicator that forms, and for how many seconds others have waited."""

    missing: tuple[int, ...]
    seconds: float


class Watcher:
    """Asks the daemon of this host by its HTTP interface. What it answers may be some tenths of a second old."""

    def look(self, name: str, size: int) -> Sight | None:
        """Returns what the daemon says of the communicator of this name and so many ranks; None: none answers."""
        try:
            return self._look(harmonaize.connect(), name, size)
        except harmonaize.HarmonaizeError:
            return None

    def forming(self, name: str) -> FormingSight | None:
        """Returns what the daemon says of a communicator that forms under this name; None: nothing."""
        try:
            for job in harmonaize.connect().jobs():
                for forming in job.forming:
                    if forming.name == name:
                        return FormingSight(forming.missing_ranks, forming.for_seconds)
        except harmonaize.HarmonaizeError:
            pass
        return None

    @staticmethod
    def _look(client: Client, name: str, size: int) -> Sight:
        for job in client.jobs():
            found = next((one.id for one in job.communicators if (one.name, one.size) == (name, size)), None)
            for one in client.ranks(job.id) if found is not None else ():
                if one.communicator == found:
                    return Sight(known=True, left=frozenset(rank.rank for rank in one.ranks if rank.left))
        return Sight(known=False, left=frozenset())
