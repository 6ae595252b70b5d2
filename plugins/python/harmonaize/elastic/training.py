"""The loop around a training function: calls it again after each change of the ranks."""

from __future__ import annotations

import contextlib
import ctypes
import time
import typing

from harmonaize.elastic import tickets, transfer
from harmonaize.elastic.agreement import Meeting, Met, Point, Standing, gather_leavers, gather_standings, tell
from harmonaize.elastic.answers import Bounds
from harmonaize.elastic.checkpoints import Checkpoints, JobCheckpoints
from harmonaize.elastic.errors import ElasticError, MembershipChange, StateLostError
from harmonaize.elastic.garbage import Garbage
from harmonaize.elastic.membership import Membership
from harmonaize.elastic.offer_requests import LEAVE_BEFORE_SECONDS, OfferRequests
from harmonaize.elastic.policies import Policy
from harmonaize.elastic.progress_reports import ProgressFunction, ProgressReports, steps_alone
from harmonaize.elastic.requests import Leave, Places, Requests
from harmonaize.elastic.world import World
from harmonaize.nccl import Communicator, NcclError

if typing.TYPE_CHECKING:
    from harmonaize.elastic.job_offers import AnswerFunction
    from harmonaize.elastic.state import State
    from harmonaize.events import Event

# Seconds between two looks of rank 0 at what the provider asks, and for newcomers: each is a question to the daemon.
_LOOK_SECONDS = 0.2
# Most newcomers that are taken at once. It bounds how long the ranks wait for a growth.
_MOST_NEWCOMERS = 64
# Seconds for which a ticket for offered places is valid, and so how long newcomers may take to start.
_TICKET_SECONDS = 600.0

T = typing.TypeVar("T")


class Training:
    """One call of `run`: the membership, the commits of a state, and what is asked of the job."""

    def __init__(  # noqa: PLR0913
        self,
        state: State,
        membership: Membership,
        requests: Requests,
        policies: typing.Mapping[str, Policy],
        reports: ProgressReports,
        checkpoints: JobCheckpoints | None,
    ) -> None:
        """Takes the parts."""
        self.save_advised = False
        self._checkpoints = checkpoints
        self.stopped = False
        self.shares: dict[str, typing.Any] = {}
        self._state = state
        self._membership = membership
        self._requests = requests
        self._policies = policies
        self._reports = reports
        self._world: World | None = None
        self._first_size = 0
        self._meeting: Meeting | None = None
        self._synchronized = False
        self._looked_at = 0.0
        self._asked: list[Leave] = []
        self._newcomers = 0
        self._left = False
        self._garbage = Garbage()

    @property
    def communicator(self) -> Communicator:
        """The communicator of all ranks."""
        return self._membership.communicator

    @property
    def world(self) -> World:
        """The rank's place."""
        if self._world is None:
            raise ElasticError("the ranks have not come together yet")
        return self._world

    def run(self, train: typing.Callable[[typing.Any], T]) -> T | None:
        """Calls `train(state)` until it has returned at all ranks. Returns its result; None: the rank has left."""
        self._membership.start()
        if not self._membership.is_newcomer:
            self._state._commits.add(0, self._state._copy)  # noqa: SLF001
        orderly = False
        returned: list[T] = []

        def call() -> None:
            returned[:] = [train(self._state)]
            self._meet(Point.END)
            self._state._exit(broken=False)  # noqa: SLF001
            self._clean()

        try:
            while not self._left and not (self._attempt(self._begin) and self._attempt(call)):
                returned.clear()
            orderly = True
            return None if self._left else returned[0]
        finally:
            self._garbage.end()
            if self._checkpoints is not None:
                self._checkpoints.close(orderly=orderly and not self._left)
            self._requests.close()
            self._membership.leave(orderly=orderly)

    def _attempt(self, act: typing.Callable[[], None]) -> bool:
        """Does something that a change may leave. Returns whether it was not left; else the change has been made."""
        try:
            act()
        except MembershipChange:
            change: typing.Callable[[], None] = self._change
            broken = False
        except RuntimeError:
            if not self._membership.is_broken():
                self._state._exit(broken=True)  # noqa: SLF001
                raise
            change, broken = self._membership.recover, True
        else:
            return True
        self._garbage.collect()
        self._state._exit(broken=broken)  # noqa: SLF001
        try:
            change()
        except NcclError:
            # Another rank was lost during the change.
            self._membership.recover()
        self._synchronized = self._synchronized and not self._membership.is_newcomer
        return False

    def _clean(self) -> None:
        """Has what the ranks shared be removed, once all have left the training function."""
        # A rank that is lost now does not need it any more.
        with contextlib.suppress(NcclError):
            self._meet(Point.ENDED)
        self._state._clean()  # noqa: SLF001

    # At the beginning of each membership

    def _begin(self) -> None:
        """Agrees on a commit, has it everywhere, and enters the state."""
        communicator = self.communicator
        newest = self._state._commits.newest  # noqa: SLF001
        mine = Standing(
            commit=Standing.NONE if newest is None else newest,
            synchronized=self._synchronized,
            host=self._membership.host,
            epoch=self._membership.epoch,
        )
        standings = gather_standings(communicator, mine)
        # Newcomers do not know the name.
        communicator.name = tell(communicator, communicator.name)
        one_host = len({standing.host for standing in standings}) == 1
        self._membership.confirm(1 + max(standing.epoch for standing in standings), one_host=one_host)
        if self._checkpoints is not None:
            self._checkpoints.enter(communicator)
        if not self._starts_from_checkpoint(standings):
            self._restore(standings)
        self._membership.keep_ticket()
        self._first_size = self._first_size or communicator.size
        epoch = self._membership.epoch
        self._world = World(communicator.rank, communicator.size, epoch, self._first_size, one_host, communicator.name)
        self._meeting = Meeting(communicator)
        self.shares = {name: policy(self._world) for name, policy in self._policies.items()}
        self._asked, self._newcomers = [], 0
        self._state._leaves = False  # noqa: SLF001
        self._state._enter(self)  # noqa: SLF001

    def _starts_from_checkpoint(self, standings: list[Standing]) -> bool:
        """Takes the state from the newest checkpoint where no rank has come further than the beginning. Returns whether
        there was one.
        """
        if self._checkpoints is None or any(one.synchronized or one.commit > 0 for one in standings):
            return False
        found = self._checkpoints.load(self._state)
        if found is None:
            return False
        self._state._commits.keep_only(*found)  # noqa: SLF001
        self._state._restore(found[1])  # noqa: SLF001
        self._synchronized = True
        return True

    def _restore(self, standings: list[Standing]) -> None:
        """Goes back to the newest commit that all have; ranks without the others' state are sent it."""
        state, communicator = self._state, self.communicator
        sources = {rank: one.commit for rank, one in enumerate(standings) if one.synchronized}
        if not sources:
            sources = {rank: one.commit for rank, one in enumerate(standings) if one.commit != Standing.NONE}
        if not sources:
            raise StateLostError("no rank is left that has the job's state")
        number, root = min(sources.values()), min(sources)
        kept = state._commits.at(number) if communicator.rank in sources else None  # noqa: SLF001
        if kept is None and communicator.rank in sources:
            raise StateLostError(f"this rank has made other commits since commit {number}, the newest that all have")
        if kept is None or not all(standing.synchronized for standing in standings):
            if communicator.rank == root and kept is not None:
                transfer.send(communicator, kept, state)
            else:
                kept = transfer.receive(communicator, root, state)
        state._commits.keep_only(number, kept)  # noqa: SLF001
        state._restore(kept)  # noqa: SLF001
        self._synchronized = True

    # In the training function

    def commit(self) -> None:
        """Keeps a copy of the state, once all ranks have come here."""
        met = self._meet(Point.COMMIT)
        commits = self._state._commits  # noqa: SLF001
        number = (commits.newest or 0) + 1
        commits.add(number, self._state._copy)  # noqa: SLF001
        if self._checkpoints is not None and (met.save or self._checkpoints.is_due(number)):
            self._save()

    def _save(self) -> None:
        """Saves the newest commit, which all ranks have."""
        number = self._state._commits.newest  # noqa: SLF001
        kept = None if number is None else self._state._commits.at(number)  # noqa: SLF001
        if self._checkpoints is not None and number is not None and kept is not None:
            self._checkpoints.save(number, kept, self._state)

    def check(self) -> None:
        """Leaves the training function by MembershipChange if a rank knows of a change."""
        if self._meet(Point.CHECK).change:
            raise MembershipChange

    def _meet(self, point: Point) -> Met:
        """Meets all ranks. Returns what any of them wants."""
        if self._meeting is None:
            raise ElasticError("the ranks have not come together yet")
        state = self._state
        if point == Point.CHECK:
            self._look()
        asks = bool(self._asked) or self._newcomers > 0 or state._leaves  # noqa: SLF001
        commits = state._commits.newest or 0  # noqa: SLF001
        saves = point == Point.COMMIT and self.save_advised
        met = self._meeting.meet(point, commits, asks=asks, stops=state._stops, saves=saves)  # noqa: SLF001
        self.save_advised = self.save_advised and not saves
        self.stopped = self.stopped or met.stop
        return met

    def _look(self) -> None:
        """Has rank 0 learn what the provider asks, and whether newcomers wait, and tell how far the job has come."""
        now = time.monotonic()
        if self.world.rank != 0 or now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        self._reports.look(self._state, self._state._commits.newest or 0, self.shares)  # noqa: SLF001
        self._newcomers = tickets.waiting(self.communicator)
        for request in self._requests.pending(self.world):
            if isinstance(request, Places):
                self._requests.settled(request, tickets.make(self.communicator, request.count, _TICKET_SECONDS))
            elif request not in self._asked and any(0 <= rank < self.world.size for rank in request.ranks):
                self._asked.append(request)

    # A change that all ranks know of

    def _change(self) -> None:
        """Makes the change of which the ranks know. RemoteError: another rank is gone."""
        mine = {rank for request in self._asked for rank in request.ranks}
        if self._state._leaves:  # noqa: SLF001
            mine.add(self.world.rank)
        leavers, newcomers = gather_leavers(self.communicator, mine, self._newcomers)
        for request in self._asked:
            self._requests.settled(request, None)
        self._newcomers = 0
        if leavers:
            self._save()
        if self.world.rank in leavers:
            if self._checkpoints is not None:
                self._checkpoints.await_stored()
            self._left = self.stopped = True
        elif leavers:
            self._membership.exclude(leavers)
        elif newcomers > 0:
            self._grow(newcomers)

    def _grow(self, newcomers: int) -> None:
        size = (ctypes.c_int32 * 1)()
        if self.world.rank == 0:
            size[0] = tickets.admit(self.communicator, min(newcomers, _MOST_NEWCOMERS))
        self.communicator.broadcast(size)
        if size[0] > self.communicator.size:
            self._membership.grow(size[0])


class _Listener:
    """Hears the job's events at rank 0, and tells the program of them."""

    def __init__(self, hear: typing.Callable[[Event], None] | None) -> None:
        """Takes whom to tell; None: nobody."""
        self.training: Training | None = None
        self._hear = hear

    def __call__(self, event: Event) -> None:
        """Hears of an event."""
        if event.name == "checkpoint.advised" and self.training is not None:
            self.training.save_advised = True
        if self._hear is not None:
            self._hear(event)


_running: list[Training] = []


def run(  # noqa: PLR0913
    train: typing.Callable[[typing.Any], T],
    state: State,
    *,
    policies: typing.Mapping[str, Policy] | None = None,
    requests: Requests | None = None,
    hear: typing.Callable[[Event], None] | None = None,
    answer: AnswerFunction | None = None,
    least_ranks: int = 1,
    most_ranks: int | None = None,
    leave_before: float = LEAVE_BEFORE_SECONDS,
    progress: ProgressFunction | None = steps_alone,
    patience: float = 120.0,
    checkpoint: Checkpoints | None = None,
) -> T | None:
    """Calls `train(state)` on every rank, and again whenever ranks were lost, left, or came: from the last commit, with
    another `state.communicator` and another `state.world`, in the same processes.

    `policies` decide shares of the work for each membership, which `state.share(name)` gives. The job ends where fewer
    than `least_ranks` are left, or a change takes more than `patience` seconds. Returns what `train` returned; None:
    this rank has left.

    Rank 0 answers the provider's offers by `answer(offer, world)`, which returns Accept, Decline, Counter or None,
    for not yet. Without it the job accepts what keeps it within `least_ranks` and `most_ranks`. Ranks that are to
    leave do so from `leave_before` seconds before that is due on. Rank 0 tells `hear` of the job's events.
    `requests` is another source of what is asked, and takes the place of these.

    Rank 0 also tells the provider how far the job has come, twice a second at most, so that places can be offered where
    they shorten most: each commit counts as a step, and `progress(state)` returns what is told besides, as a mapping of
    arguments of `Client.report_progress`. None: the program tells of its progress itself, or not at all.

    With `checkpoint` commits are saved as it says, when the provider advises it, and before ranks leave. Where no rank
    has come further than the beginning, as after a restart of the whole job, the training goes on from the newest
    checkpoint, with any number of ranks: from memory, or the folder, whichever is nearest.

    Exceptions of `train` end the rank, unless a loss is behind them. ElasticError: the job cannot go on; NcclError: the
    ranks could not come together at first; ValueError: the arguments do not fit each other.
    """
    if requests is not None and (hear, answer, most_ranks) != (None, None, None):
        raise ValueError("'requests' takes the place of 'hear', 'answer' and 'most_ranks': give it alone")
    if most_ranks is not None and most_ranks < least_ranks:
        raise ValueError(f"most_ranks, {most_ranks}, is below least_ranks, {least_ranks}")
    listener = _Listener(hear)
    if requests is None:
        hears = listener if checkpoint is not None else hear
        requests = OfferRequests(Bounds(least_ranks, most_ranks), answer, hears, leave_before)
    reports = ProgressReports(progress)
    checkpoints = None if checkpoint is None else JobCheckpoints(checkpoint)
    training = Training(state, Membership(least_ranks, patience), requests, policies or {}, reports, checkpoints)
    listener.training = training
    _running.append(training)
    try:
        return training.run(train)
    finally:
        _running.remove(training)


def world() -> World:
    """Returns this rank's place in the training that runs. ElasticError: none runs."""
    if not _running:
        raise ElasticError("no training runs: call elastic.run(train, state)")
    return _running[-1].world


def make_ticket(uses: int = 1, seconds: float = _TICKET_SECONDS) -> str:
    """Returns a ticket with which so many more processes of this user may join the training that runs.

    It is a secret: hand it over in a file of mode 0600, whose name a newcomer finds in HARMONAIZE_TICKET_FILE. Errors:
    ElasticError: none runs; LibraryError: the library knows no tickets; NcclError: the numbers are out of range.
    """
    if not _running:
        raise ElasticError("no training runs: call elastic.run(train, state)")
    return tickets.make(_running[-1].communicator, uses, seconds)
