"""A client of one daemon: a call for each thing that a job may ask or say."""

from __future__ import annotations

import datetime
import math
import os
import typing

from harmonaize.async_event_stream import AsyncEventStream
from harmonaize.caller import Caller, Usage
from harmonaize.checkpoints import CheckpointAdvice, SaveMoment, SavePlace
from harmonaize.connection import Connection
from harmonaize.documents import Fields, T, format_time
from harmonaize.endpoint import Endpoint, endpoint_for
from harmonaize.errors import ProblemError
from harmonaize.event_query import EventQuery, From, Types
from harmonaize.event_stream import EventStream
from harmonaize.events import Event, EventType, Missed
from harmonaize.exchange import exchange
from harmonaize.flight import Flight
from harmonaize.job_list import JOBS, job_list
from harmonaize.jobs import Communicator, CommunicatorRanks, Job, JobSummary, Operation
from harmonaize.kept_events import kept_events
from harmonaize.notices import Answer, Promises
from harmonaize.offers import AnswerTerms, Offer, OfferKind, OfferOrder, ProposedTerms, body_of
from harmonaize.policy import Policy
from harmonaize.progress import Progress
from harmonaize.request import Query, Request, path_of
from harmonaize.requirements import Grant, Granted, Requirements
from harmonaize.tickets import NewTicket, Tickets
from harmonaize.toml_text import TomlDocument, toml_text
from harmonaize.verdicts import Verdict

DEFAULT_TIMEOUT = 10.0
_DRAINING = 503


class Client:
    """Asks one daemon. It holds no connection: each call makes its own, so any thread may call, and a daemon that was
    restarted is found again.

    A job is named by its id or its name. Besides the errors that each call names, all raise NoDaemonError where no
    daemon answers, ConnectionLostError where it stops answering, AnswerError for what is no answer of a daemon, and
    ProblemError where the daemon refuses. Calls that only read are made again while the daemon takes no more of them.
    """

    def __init__(self, endpoint: Endpoint, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Takes where the daemon is, and how many seconds a call may take. `connect` makes clients."""
        if not (timeout > 0 and math.isfinite(timeout)):
            raise ValueError(f"a call takes more than 0 seconds and not for ever, so not {timeout!r}")
        self._endpoint = endpoint
        self._timeout = timeout

    def __repr__(self) -> str:
        """Names the daemon, and no token."""
        return f"<harmonaize.Client of {self._endpoint.describe()}>"

    # Jobs

    def jobs(self) -> tuple[JobSummary, ...]:
        """Returns the jobs that are on this host, or were in the last minutes, in the order in which they began."""
        return job_list(self._call(JOBS))

    def job(self, job: str) -> Job:
        """Returns one job with its communicators. ProblemError 404: there is none; 409: several tenants have one."""
        return Job.from_fields(self._fields("v1", "jobs", job))

    def communicators(self, job: str) -> tuple[Communicator, ...]:
        """Returns the communicators of a job."""
        return self._list("communicators", Communicator.from_fields, "v1", "jobs", job, "communicators")

    def ranks(self, job: str) -> tuple[CommunicatorRanks, ...]:
        """Returns the ranks of each communicator of a job."""
        return self._list("communicators", CommunicatorRanks.from_fields, "v1", "jobs", job, "ranks")

    def operations(self, job: str) -> tuple[Operation, ...]:
        """Returns the operations of a job that wait for ranks, and for which."""
        return self._list("operations", Operation.from_fields, "v1", "jobs", job, "operations")

    def stuck(self, job: str) -> tuple[Verdict, ...]:
        """Returns why operations of a job do not end: a verdict for each communicator; (): nothing hangs."""
        return self._list("verdicts", Verdict.from_fields, "v1", "jobs", job, "stuck")

    def all_stuck(self) -> tuple[Verdict, ...]:
        """Returns the verdicts of all jobs on this host. For operators."""
        return self._list("verdicts", Verdict.from_fields, "v1", "stuck")

    def flight(self, job: str) -> Flight:
        """Returns what each rank of a job on this host has posted, and what of that has not ended."""
        return Flight.from_fields(self._fields("v1", "jobs", job, "flight"))

    # Requirements

    def requirements(self, job: str) -> Requirements:
        """Returns what was said of a job. ProblemError 404: there is no such job."""
        return Requirements.from_fields(self._fields("v1", "jobs", job, "requirements"))

    def set_requirements(self, job: str, requirements: TomlDocument) -> Granted:
        """Says what a job wants, and returns what it is granted. What is named replaces what was said before, key by
        key, at all hosts of the job; a key that is granted less is no error, but a shortfall.

        `requirements` is a document in TOML (docs/requirements.md), or what it says as a mapping. ProblemError 400: it
        has a mistake, whose line and column the text has, and nothing changes; 404: there is no such job; 409: the job
        has ended, or its tenant's memory does not suffice; 413: it has more than 64 KiB; 429: the job's requirements
        change too often. ValueError: TOML has no form for a value of the mapping.
        """
        request = Request("PUT", path_of("v1", "jobs", job, "requirements"), toml=toml_text(requirements))
        return Granted.from_fields(self._answer_to(request))

    def forget_requirements(self, job: str) -> Granted:
        """Takes back all that was said of a job, and returns what it is granted then. ProblemError 404, 409, 429: as of
        `set_requirements`.
        """
        return Granted.from_fields(self._answer_to(Request("DELETE", path_of("v1", "jobs", job, "requirements"))))

    def granted(self, job: str) -> Granted:
        """Returns what a job is granted, and why not more. ProblemError 404: there is no such job."""
        return Granted.from_fields(self._fields("v1", "jobs", job, "granted"))

    def check_requirements(self, requirements: TomlDocument) -> Grant:
        """Returns what would be granted to a job of the caller's. It changes nothing. Errors: as of
        `set_requirements`.
        """
        request = Request("POST", path_of("v1", "requirements", "check"), toml=toml_text(requirements))
        return Grant.from_fields(self._answer_to(request))

    def report_progress(  # noqa: PLR0913
        self,
        job: str,
        step: int,
        samples: float | None = None,
        loss: float | None = None,
        accuracy: float | None = None,
        *,
        batch_size: float | None = None,
        accumulation: float | None = None,
        synchronisation_interval: float | None = None,
        learning_rate_factor: float | None = None,
        gradient_noise_scale: float | None = None,
        samples_in_all: float | None = None,
    ) -> Progress:
        """Tells how far a job has come, and returns what is known of that. One rank's word is enough.

        `step` rises; a lower one says that the job went back to a checkpoint. `samples` were processed in all, of
        `samples_in_all`; `accuracy` is from 0 to 1. `batch_size` (samples of all ranks), `accumulation`,
        `synchronisation_interval` and `learning_rate_factor` are the settings of the step: a job that has stated ranges
        for them in [adapt] hears of better ones by the event adaptation.advised. `gradient_noise_scale` is the batch
        size, in samples, from which on larger ones bring little. ProblemError 400: a number is out of range; 404:
        there is no such job; 409: the job has ended. A number that is not finite, as the loss of a job that
        diverges, counts as not known.
        """
        known = {
            "step": step,
            "samples": samples,
            "loss": loss,
            "accuracy": accuracy,
            "batch_size": batch_size,
            "accumulation": accumulation,
            "synchronisation_interval": synchronisation_interval,
            "learning_rate_factor": learning_rate_factor,
            "gradient_noise_scale": gradient_noise_scale,
            "samples_in_all": samples_in_all,
        }
        body = {name: value for name, value in known.items() if value is not None and math.isfinite(value)}
        return Progress.from_fields(self._answer_to(Request("POST", path_of("v1", "jobs", job, "progress"), body=body)))

    def progress(self, job: str) -> Progress:
        """Returns how far a job says that it has come. ProblemError 404: there is no such job."""
        return Progress.from_fields(self._fields("v1", "jobs", job, "progress"))

    # Checkpoints

    def checkpoint_advice(self, job: str) -> CheckpointAdvice:
        """Returns when a job should save, and from what that follows. ProblemError 404: there is no such job."""
        return CheckpointAdvice.from_fields(self._fields("v1", "jobs", job, "checkpoints", "advice"))

    def report_save(  # noqa: PLR0913
        self,
        job: str,
        step: int,
        where: SavePlace,
        *,
        stall_seconds: float | None = None,
        seconds: float | None = None,
        size: int | None = None,
        epoch_end: bool = False,
    ) -> CheckpointAdvice:
        """Tells of a checkpoint that is safe, and returns the advice that follows. One rank's word is enough.

        The job stood still for `stall_seconds`, and the checkpoint was safe after `seconds`; `size` is in bytes, of all
        ranks' parts together. The last checkpoint of an epoch is one that stays. The job's ranks hear of it by
        checkpoint.saved. ProblemError 400: a number is out of range; 404: there is no such job; 409: the job has ended;
        429: there are too many reports.
        """
        known = {
            "step": step,
            "where": where,
            "stall_seconds": stall_seconds,
            "seconds": seconds,
            "bytes": size,
            "epoch_end": epoch_end,
        }
        body = {name: value for name, value in known.items() if value is not None}
        request = Request("POST", path_of("v1", "jobs", job, "checkpoints", "reports"), body=body)
        return CheckpointAdvice.from_fields(self._answer_to(request))

    def save_now(self, job: str) -> SaveMoment:
        """Advises a job to save now, and returns what its ranks are told by checkpoint.advised.

        ProblemError 404: there is no such job; 409: the job has ended; 429: that is asked too often.
        """
        request = Request("POST", path_of("v1", "jobs", job, "checkpoints"), body={})
        return SaveMoment.from_fields(self._answer_to(request))

    def make_ticket(self, job: str, *, uses: int = 1, seconds: float = 3600) -> NewTicket:
        """Makes a ticket by which up to `uses` processes of this user can join the job within `seconds`.

        Its secret is told this once. ProblemError 400: a number is out of range; 403: an operator asks; 404: there is
        no such job here; 409: the job has no communicator now, or this user has as many tickets as it may.
        """
        request = Request("POST", path_of("v1", "jobs", job, "tickets"), body={"uses": uses, "seconds": seconds})
        return NewTicket.from_fields(self._answer_to(request))

    def tickets(self, job: str) -> Tickets:
        """Returns the job's tickets, without secrets. ProblemError 404: there is no such job here."""
        return Tickets.from_fields(self._fields("v1", "jobs", job, "tickets"))

    def burn_tickets(self, job: str) -> Tickets:
        """Burns all tickets of the job, and returns what is left: newcomers that wait by them are refused.

        ProblemError 404: there is no such job here.
        """
        return Tickets.from_fields(self._answer_to(Request("DELETE", path_of("v1", "jobs", job, "tickets"))))

    def policy(self) -> Policy:
        """Returns what the provider grants: to tenants what it grants them, to operators all."""
        return Policy.from_fields(self._fields("v1", "policy"))

    def set_policy(self, policy: TomlDocument) -> Policy:
        """Has the daemon grant by another policy until it reads its configuration anew, and returns it. For operators.

        `policy` has the tables [policy] and [[policy.tenant]] of a provider.toml; what it leaves out is as without a
        configuration. ProblemError 400: it has a mistake, and nothing changes; 405: the caller is no operator.
        """
        return Policy.from_fields(self._answer_to(Request("PUT", path_of("v1", "policy"), toml=toml_text(policy))))

    # Events

    def events(  # noqa: PLR0913
        self,
        types: Types | None = None,
        job: str | None = None,
        after: str | None = None,
        *,
        severity: str | None = None,
        start: From = "now",
        timeout: float | None = None,
    ) -> EventStream:
        """Returns a stream of events, which goes on for ever and connects again by itself.

        `types` are types and families, such as "rank.*,plan.changed" or a list of them; None: all. `job` is a job's
        name, its id, or the beginning of its id; None: all of the caller's. `after` is the `cursor` or the `id` of the
        last event that was read; without it the stream begins with what comes from now on, or with all that is kept
        (`start="start"`). `severity` is INFO, WARN, ERROR or FATAL: that and worse. A loop over the stream ends when no
        event has come for `timeout` seconds; None: never.

        ProblemError 400: there is no such type, or no job with this name is here or has events that are kept.
        """
        query = EventQuery.of(types, job, severity, after, start)
        return EventStream(self._endpoint, self._resolved(query), timeout)

    def events_async(  # noqa: PLR0913
        self,
        types: Types | None = None,
        job: str | None = None,
        after: str | None = None,
        *,
        severity: str | None = None,
        start: From = "now",
        timeout: float | None = None,
    ) -> AsyncEventStream:
        """Returns what `events` returns, for `async for` and `async with`. It connects when it is first used."""
        return AsyncEventStream(self._endpoint, EventQuery.of(types, job, severity, after, start), timeout)

    def kept_events(
        self,
        types: Types | None = None,
        job: str | None = None,
        after: str | None = None,
        *,
        severity: str | None = None,
    ) -> typing.Iterator[Event | Missed]:
        """Yields the events that the daemon has kept, oldest first, and ends with the last one. The parameters are
        those of `events`. It asks for a page at a time; a `Missed` stands before the page in which events are missing.
        """
        query = self._resolved(EventQuery.of(types, job, severity, after, "start"))
        return kept_events(query, self._call)

    def event_types(self) -> tuple[EventType, ...]:
        """Returns the types of events that this daemon knows."""
        return self._list("event_types", EventType.from_fields, "v1", "event-types")

    # Answers

    def acknowledge(self, event: Event | str) -> Answer:
        """Says that the job is ready for what an event with a deadline tells of. Returns the event with its answer.

        `event` is the event, its id, or the beginning of it. The same answer again changes nothing. ProblemError 404:
        no such event of the caller's can be answered here; 409: it cannot be answered any more; 429: too many answers.
        """
        return self._answer(event, "acknowledge", {})

    def extend(
        self, event: Event | str, *, seconds: float | None = None, until: datetime.datetime | None = None
    ) -> Answer:
        """Asks for more time than an event with a deadline gives: `seconds` beyond the deadline, 1 at least, or `until`
        a moment with a time zone; 30 days at most. The deadline stays until the provider sets another one.

        Errors: as of `acknowledge`; ValueError: not one of the two is given, or the moment has no zone.
        """
        if (seconds is None) == (until is None):
            raise ValueError("say for how many seconds, or until when")
        if until is None:
            return self._answer(event, "extend", {"seconds": seconds})
        return self._answer(event, "extend", {"until": format_time(until)})

    def promises(self) -> Promises:
        """Returns what notice the caller's jobs were promised, and whether it was kept; operators read all."""
        return Promises.from_fields(self._fields("v1", "promises"))

    # The daemon

    def whoami(self) -> Caller:
        """Returns who the caller is to the daemon. ProblemError 401: the token does not hold."""
        return Caller.from_fields(self._fields("v1", "whoami"))

    def usage(self) -> tuple[Usage, ...]:
        """Returns what the caller has used of this host; operators read that of all tenants."""
        return self._list("usage", Usage.from_fields, "v1", "usage")

    def is_ready(self) -> bool:
        """Returns whether the daemon takes new programs. It does not while it drains."""
        try:
            exchange(self._endpoint, Request("GET", "/readyz"), self._timeout)
        except ProblemError as problem:
            if problem.status == _DRAINING:
                return False
            raise
        return True

    # Offers

    def offers(self, job: str | None = None, *, state: str | None = None) -> tuple[Offer, ...]:
        """Returns the offers to the caller's jobs, the newest first; operators get all of this host.

        `state` is one of the states, or "open" for all that have not ended.
        """
        query = {name: value for name, value in (("job", job), ("state", state)) if value is not None}
        answer = self._answer_to(Request("GET", path_of("v1", "offers"), query))
        return answer.objects("offers", Offer.from_fields)

    def offer(self, offer: Offer | str) -> Offer:
        """Returns an offer as it is now. ProblemError 404: the caller has no such offer."""
        return Offer.from_fields(self._fields("v1", "offers", _id_of(offer)))

    def accept_offer(self, offer: Offer | str, *, revision: int | None = None) -> Offer:
        """Accepts an offer for the whole job. Of several answers the first one that counts is the job's. With the
        `revision` that was read it is refused with 409 if the offer has changed since; so are the next two.

        ProblemError 404: no such offer of the caller's; 409: it cannot be answered so, and the text says why; 429: too
        many answers; 503: the host that has made it does not reply.
        """
        return self._answer_offer(offer, "accept", {}, revision)

    def decline_offer(
        self, offer: Offer | str, *, not_again: float = 0, reason: str = "", revision: int | None = None
    ) -> Offer:
        """Declines an offer, and does not want to be asked for the same for `not_again` seconds. Errors: as above."""
        body: dict[str, typing.Any] = {"not_again_for_seconds": not_again}
        if reason:
            body["reason"] = reason
        return self._answer_offer(offer, "decline", body, revision)

    def counter_offer(
        self, offer: Offer | str, *, revision: int | None = None, **terms: typing.Unpack[AnswerTerms]
    ) -> Offer:
        """Asks for something else: `ranks`, `which`, `due`, `price`, `bytes_per_second`, with a `reason`.

        Errors: as of accept_offer; ProblemError 400: terms that no offer can have; ValueError: `due` has no time zone.
        """
        return self._answer_offer(offer, "counter", body_of(terms), revision)

    def make_offer(self, job: str, kind: OfferKind, **order: typing.Unpack[OfferOrder]) -> Offer:
        """Makes an offer, as an operator: the names of `order` are those of POST /v1/offers in docs/http.md.

        ProblemError 400: the order is wrong; 404: there is no such job; 409: the job cannot be asked now.
        """
        body = {"job": job, "kind": kind, **body_of(order)}
        return Offer.from_fields(self._answer_to(Request("POST", path_of("v1", "offers"), body=body)))

    def take_offer(self, offer: Offer | str) -> Offer:
        """Takes the job's counter-proposal, as an operator. ProblemError 409: there is none."""
        return self._answer_offer(offer, "take", {})

    def keep_offer(self, offer: Offer | str, *, reason: str = "") -> Offer:
        """Refuses the job's counter-proposal, as an operator: the offer stands. ProblemError 409: there is none."""
        return self._answer_offer(offer, "keep", {"reason": reason} if reason else {})

    def propose_offer(self, offer: Offer | str, **terms: typing.Unpack[ProposedTerms]) -> Offer:
        """Offers other terms, as an operator; they are named as for counter_offer, with another `deadline`."""
        return self._answer_offer(offer, "propose", body_of(terms))

    def withdraw_offer(self, offer: Offer | str, *, reason: str = "") -> Offer:
        """Takes an offer back, as an operator. Places that a job has accepted are a promise that is broken."""
        return self._answer_offer(offer, "withdraw", {"reason": reason} if reason else {})

    def call(self, method: str, path: str, body: typing.Any = None, query: Query | None = None) -> typing.Any:
        """Makes any call of docs/http.md, such as an operator's, and returns its document, None where there is none.

        The path begins with "/", with everything encoded that needs it. ValueError: method or path cannot be sent.
        """
        if not method.isascii() or not method.isalpha():
            raise ValueError(f"{method!r} is no method of HTTP")
        plain = path.isascii() and path.isprintable() and not set(path) & set(" ?#")
        if not plain or not path.startswith("/"):
            raise ValueError(f"{path!r} is no path: it begins with /, is encoded, and has no query")
        return self._call(Request(method.upper(), path, query or {}, body=body))

    def _answer_offer(
        self, offer: Offer | str, verb: str, body: dict[str, typing.Any], revision: int | None = None
    ) -> Offer:
        if revision is not None:
            body = {**body, "revision": revision}
        path = path_of("v1", "offers", _id_of(offer), verb)
        return Offer.from_fields(self._answer_to(Request("POST", path, body=body)))

    def _answer(self, event: Event | str, answer: str, body: dict[str, typing.Any]) -> Answer:
        name = event.id if isinstance(event, Event) else event
        return Answer.from_fields(self._answer_to(Request("POST", path_of("v1", "events", name, answer), body=body)))

    def _resolved(self, query: EventQuery) -> EventQuery:
        return query.with_job(self.jobs()) if query.names_a_job_by_name else query

    def _list(self, name: str, make: typing.Callable[[Fields], T], *path: str) -> tuple[T, ...]:
        return self._fields(*path).objects(name, make)

    def _fields(self, *path: str) -> Fields:
        return self._answer_to(Request("GET", path_of(*path)))

    def _answer_to(self, request: Request) -> Fields:
        return Fields(self._call(request), request.path)

    def _call(self, request: Request) -> typing.Any:
        return exchange(self._endpoint, request, self._timeout).json()


def connect(  # noqa: PLR0913
    socket: str | os.PathLike[str] | None = None,
    url: str | None = None,
    token: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    *,
    as_operator: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
) -> Client:
    """Finds a daemon, and returns a client of it.

    Without arguments it is the one that `harmonaize` and the library find: at HARMONAIZE_SOCKET, else the system's,
    else the user's own. `socket` names a daemon's own socket, such as /run/harmonaize/harmonaized.sock; HTTP is served
    beside it. `as_operator` takes the operators' socket. `url` is https://HOST:PORT, with the `token` that an operator
    has made; `ca_file` has the certificates that are believed, instead of the system's. `timeout` bounds each call, in
    seconds.

    Errors: NoDaemonError: none listens there; UntrustedDaemonError: one listens that may not be trusted. ValueError:
    the arguments do not fit each other.
    """
    endpoint = endpoint_for(socket, url, token, ca_file, as_operator=as_operator)
    client = Client(endpoint, timeout)
    Connection(endpoint, timeout).close()
    return client


def _id_of(offer: Offer | str) -> str:
    return offer.id if isinstance(offer, Offer) else offer
