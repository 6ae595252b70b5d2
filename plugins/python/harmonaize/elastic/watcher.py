"""Whether the host's daemon knows a communicator, and who is missing where one forms."""

from __future__ import annotations

import dataclasses

import harmonaize


@dataclasses.dataclass(frozen=True)
class FormingSight:
    """Who has not come to a communicator that forms, and for how many seconds others have waited."""

    missing: tuple[int, ...]
    seconds: float


class Watcher:
    """Asks the daemon of this host by its HTTP interface. What it answers may be some tenths of a second old."""

    def knows(self, name: str, size: int) -> bool | None:
        """Returns whether the daemon knows a communicator of this name and so many ranks; None: none answers. One that
        was restarted does not.
        """
        try:
            jobs = harmonaize.connect().jobs()
        except harmonaize.HarmonaizeError:
            return None
        return any((one.name, one.size) == (name, size) for job in jobs for one in job.communicators)

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
