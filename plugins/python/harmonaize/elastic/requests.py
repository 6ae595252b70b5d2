"""What the provider asks of the job: ranks that are to leave, and places that are offered."""

from __future__ import annotations

import dataclasses
import datetime
import typing

from harmonaize.elastic.world import World


@dataclasses.dataclass(frozen=True)
class Leave:
    """These ranks of the present membership are to leave by the deadline, if there is one."""

    ranks: tuple[int, ...]
    id: str = ""
    deadline: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True)
class Places:
    """So many more ranks may join."""

    count: int
    id: str = ""


def is_near(deadline: datetime.datetime | None, seconds: float) -> bool:
    """Returns whether a deadline is so near, or has passed, or is not known."""
    return deadline is None or (deadline - datetime.datetime.now(datetime.UTC)).total_seconds() <= seconds


class Requests(typing.Protocol):
    """Knows what is asked of the job. Only rank 0 asks it, a few times a second."""

    def pending(self, world: World) -> typing.Iterable[Leave | Places]:
        """Yields what is asked, by the ranks' numbers in `world`. It does not wait."""

    def settled(self, request: Leave | Places, ticket: str | None) -> None:
        """Hears that the ranks have left, or of the ticket with which newcomers may take the places."""

    def close(self) -> None:
        """Hears that this rank does not ask any more."""
