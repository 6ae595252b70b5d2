"""The communicator of all ranks, and how it becomes another one when ranks go or come."""

from __future__ import annotations

import contextlib
import os
import time
import typing

from harmonaize.elastic import tickets
from harmonaize.elastic.agreement import tell
from harmonaize.elastic.errors import ElasticError, NotEnoughRanksError
from harmonaize.elastic.rendezvous import host_number, id_of, name_of, start_text
from harmonaize.elastic.watcher import FormingSight, Watcher
from harmonaize.nccl import Communicator, Forming, NcclError, RemoteError, Result

# Seconds between two questions to the daemon that come to nothing soon: another rank may have been lost at the same
# time, of which the daemon hears milliseconds later.
_FIRST_PAUSE_SECONDS = 0.002
# Seconds between two such questions later: each of them costs the daemon some hundred microseconds.
_PAUSE_SECONDS = 0.05
# Seconds for which a daemon has to answer that it does not know a communicator before it counts as restarted: its HTTP
# answers are some tenths of a second old.
_FORGOTTEN_SECONDS = 1.5
# Seconds in which a loss is noticed after an operation of a sub-group has failed because of it.
_NOTICE_SECONDS = 3.0
# Part of the patience for which ranks wait for each other after a restart of their daemon. Those that do not come then
# count as lost: the rest of the patience suffices for another try without them.
_REFORM_PART = 0.25

# Seconds for which the ticket is valid that ranks keep against a restart of their daemon: a day, so that a membership
# that changes seldom has one, and a job that has ended is soon without.
_TICKET_SECONDS = 86400.0


class Membership:
    """A rank's part of the job's membership.

    After a change the communicator before it is kept until the ranks have agreed by the new one. A rank that did not
    see the new one form, because it broke at once, is still in the old one, and the others go back to it.
    """

    def __init__(self, least_ranks: int, patience_seconds: float) -> None:
        """Takes how many ranks the job needs, and how long a change may take."""
        self.epoch = 0
        self.host = host_number()
        self.one_host = True
        self.is_newcomer = False
        self._least_ranks = least_ranks
        self._patience_seconds = patience_seconds
        self._reform_seconds = _REFORM_PART * patience_seconds
        self._watcher = Watcher()
        self._ticket = ""
        self._current: Communicator | None = None
        self._previous: Communicator | None = None
        # The number that each rank of the current communicator has in the previous one; newcomers have none there.
        self._previous_numbers: list[int] = []

    @property
    def communicator(self) -> Communicator:
        """The communicator of all ranks."""
        if self._current is None:
            raise ElasticError("the rank is in no communicator")
        return self._current

    def start(self) -> None:
        """Becomes a rank of the job: one of the first, or a newcomer with a ticket."""
        rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
        if rank is None and tickets.given():
            self.is_newcomer = True
            self._current = tickets.join(self._patience_seconds)
        else:
            text = start_text()
            self._current = Communicator.init(id_of(text), int(size or 1), int(rank or 0), name_of(text))

    def confirm(self, epoch: int, *, one_host: bool) -> None:
        """All ranks have agreed by the communicator: there is no way back."""
        self.epoch = epoch
        self.one_host = one_host
        self.is_newcomer = False
        self._drop_previous()

    def keep_ticket(self) -> None:
        """Has every rank keep a ticket where there are several hosts: a rank whose daemon is restarted joins by it.
        RemoteError: a rank is gone.
        """
        self._ticket = ""
        if self.one_host or not tickets.known():
            return
        mine = ""
        if self.communicator.rank == 0:
            # Without one, the ranks of a host whose daemon is restarted are lost.
            with contextlib.suppress(NcclError):
                mine = tickets.make(self.communicator, self.communicator.size, _TICKET_SECONDS)
        self._ticket = tell(self.communicator, mine)

    def is_broken(self) -> bool:
        """Returns whether ranks are gone. It waits for a moment, since a sub-group may have heard of it first."""
        end = time.monotonic() + _NOTICE_SECONDS
        pauses = _growing_pauses()
        while True:
            if self.communicator.async_error() != Result.SUCCESS:
                return True
            if time.monotonic() > end:
                return False
            time.sleep(next(pauses))

    def leave(self, *, orderly: bool) -> None:
        """Leaves the job. `orderly`: the others know; else their operations end with an error, as after a loss."""
        self._drop_previous()
        current, self._current = self._current, None
        if current is not None:
            _end(current, orderly=orderly)

    def exclude(self, leavers: typing.Sequence[int]) -> None:
        """Goes on without ranks that leave in order. RemoteError: another rank is gone, too: `recover`."""
        self._shrink(self.communicator, leavers, abort=False)

    def grow(self, size: int) -> None:
        """Goes on with newcomers that rank 0 has admitted, or without them where one of them is gone. RemoteError: a
        rank of this membership is gone: `recover`.
        """
        before = self.communicator
        try:
            # With the same name: newcomers do not know one, and the size tells the two apart.
            made = before.grow(size)
        except NcclError:
            if before.async_error() != Result.SUCCESS:
                raise
            return
        self._adopt(made, list(range(before.size)))

    def recover(self) -> None:
        """Goes on without the ranks that are gone, or forms anew after a restart of the daemon.

        NotEnoughRanksError: too few are left; ElasticError: it did not come about in time.
        """
        end = time.monotonic() + self._patience_seconds
        forgotten_since: float | None = None
        base = self.communicator
        pauses = _growing_pauses()
        while time.monotonic() < end:
            if self._went_back():
                return
            base = self.communicator
            lost = _lost_ranks(base)
            if lost is not None or self._watcher.knows(base.name, base.size) is not False:
                forgotten_since = None
            else:
                forgotten_since = forgotten_since or time.monotonic()
                if time.monotonic() - forgotten_since > _FORGOTTEN_SECONDS:
                    self._form_anew(end)
                    return
            if lost and self._tries_without(lost):
                return
            time.sleep(next(pauses))
        raise ElasticError(
            f"the ranks did not come together again in {self._patience_seconds} s: {self._last_error()}; is the daemon "
            "up, and does every rank run?"
        )

    def _tries_without(self, lost: typing.AbstractSet[int]) -> bool:
        """Shrinks to the ranks that are left. Returns whether that succeeded."""
        base = self.communicator
        if base.rank in lost:
            raise ElasticError("the daemon counts this rank as one that has left")
        self._check_enough(base.size - len(lost))
        # Another rank may have gone meanwhile, or have been told of fewer that have: all fail then, and all ask again.
        try:
            self._shrink(base, sorted(lost), abort=True)
        except NcclError:
            return False
        return True

    def _shrink(self, base: Communicator, excluded: typing.Sequence[int], *, abort: bool) -> None:
        name = name_of(base.name, "shrink", tuple(excluded))
        stay = [rank for rank in range(base.size) if rank not in set(excluded)]
        self._adopt(base.shrink(excluded, name, abort=abort), stay)

    def _adopt(self, made: Communicator, numbers: list[int]) -> None:
        self._drop_previous()
        self._previous, self._current = self._current, made
        self._previous_numbers = numbers

    def _went_back(self) -> bool:
        """Goes back to the previous communicator if a rank did: one that has left the new one, and not the old. Returns
        whether that one serves as it is.
        """
        if self._previous is None:
            return False
        # A rank that dies between the two questions shall not seem to have left the new one alone.
        new = _lost_ranks(self.communicator)
        old = _lost_ranks(self._previous)
        if old is None or new is None:
            return False
        back = [one for one in new if one < len(self._previous_numbers)]
        if all(self._previous_numbers[one] in old for one in back):
            return False
        self.communicator.abort()
        self._current, self._previous = self._previous, None
        return self.communicator.async_error() == Result.SUCCESS

    def _drop_previous(self) -> None:
        previous, self._previous = self._previous, None
        if previous is not None:
            _end(previous, orderly=True)

    def _check_enough(self, ranks: int) -> None:
        if ranks < self._least_ranks:
            raise NotEnoughRanksError(f"{ranks} ranks are left, and the job needs {self._least_ranks}")

    def _last_error(self) -> str:
        return "" if self._current is None or self._current.ended else self._current.last_error()

    # After a restart of the daemon

    def _form_anew(self, end: float) -> None:
        """Meets the other ranks at the daemon that was restarted: it remembers no communicator."""
        base = self.communicator
        self._drop_previous()
        base.abort()
        if not self.one_host:
            self._join_again()
            return
        members = list(range(base.size))
        while True:
            name = name_of(base.name, "anew", self.epoch, tuple(members))
            missing = self._meet(name, members, base.rank, end)
            if not missing:
                return
            members = [member for place, member in enumerate(members) if place not in missing]
            self._check_majority(base, members)

    def _join_again(self) -> None:
        """Joins the ranks on other hosts, which have gone on, as a newcomer."""
        if not self._ticket:
            raise ElasticError(
                "this host's daemon was restarted, the job's ranks on other hosts have gone on, and they have given no "
                "ticket by which this one could join them (docs/elastic.md)"
            )
        self.is_newcomer = True
        self._current = tickets.join(self._patience_seconds, self._ticket)

    def _check_majority(self, base: Communicator, members: list[int]) -> None:
        self._check_enough(len(members))
        if 2 * len(members) <= base.size or base.rank not in members:
            raise NotEnoughRanksError(
                f"{len(members)} of {base.size} ranks have come after the restart of the daemon: no more than half, so "
                "the others might go on without them"
            )

    def _meet(self, name: str, members: list[int], own: int, end: float) -> set[int]:
        """Forms a communicator of these ranks. Returns the places of those that did not come; none: it has formed."""
        while time.monotonic() < end:
            try:
                forming = Forming(id_of(f"{name}:1"), len(members), members.index(own), name)
            except NcclError:
                # The daemon is not up yet, or refuses for a while.
                time.sleep(_PAUSE_SECONDS)
                continue
            try:
                made, missing = self._await(forming, end)
            finally:
                forming.give_up()
            if made is not None:
                self._current = made
                return set()
            if missing:
                return missing
        raise ElasticError("the ranks did not come together again at the daemon that was restarted")

    def _await(self, forming: Forming, end: float) -> tuple[Communicator | None, set[int]]:
        """Returns the communicator, or the places of the ranks for which all have waited long enough."""
        sight: FormingSight | None = None
        try:
            while time.monotonic() < end:
                made = forming.formed()
                if made is not None:
                    return made, set()
                sight = self._watcher.forming(forming.name) or sight
                if sight is not None and sight.seconds > self._reform_seconds:
                    return None, set(sight.missing)
                time.sleep(_PAUSE_SECONDS)
        except NcclError:
            # Late in the wait another rank has given up, which saw the same ranks missing. Else all try again.
            late = sight is not None and sight.seconds > self._reform_seconds / 2
            return None, set(sight.missing) if sight is not None and late else set()
        return None, set()


def _growing_pauses() -> typing.Iterator[float]:
    """Yields seconds for which to wait between two questions."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, _PAUSE_SECONDS)


def _lost_ranks(communicator: Communicator) -> frozenset[int] | None:
    """Returns the ranks that are gone; None: the daemon is gone itself. UsageError: it is of an earlier release."""
    try:
        return communicator.lost_ranks()
    except RemoteError:
        return None


def _end(communicator: Communicator, *, orderly: bool) -> None:
    """Ends a communicator, without an error at other ranks where it is `orderly` and nothing is broken."""
    with contextlib.suppress(NcclError):
        if orderly and communicator.async_error() == Result.SUCCESS:
            communicator.destroy()
    if not communicator.ended:
        communicator.abort()
