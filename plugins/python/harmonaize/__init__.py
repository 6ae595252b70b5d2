"""Harmonaize for Python: what the daemon knows of a job, what it tells it, and what the job may say.

    client = harmonaize.connect()
    for event in client.events("rank.lost,maintenance.scheduled"):
        print(event.text)

docs/python.md has an example for each thing. The package needs nothing but Python, and has no threads.
"""

from harmonaize.async_event_stream import AsyncEventStream
from harmonaize.caller import Caller, Usage
from harmonaize.checkpoints import (
    CheckpointAdvice,
    FailureRate,
    Quantiles,
    SavedCheckpoint,
    SaveEstimate,
    SaveInterval,
    SaveMoment,
)
from harmonaize.client import Client, connect
from harmonaize.errors import (
    AnswerError,
    ConnectionLostError,
    HarmonaizeError,
    NoDaemonError,
    ProblemError,
    UntrustedDaemonError,
)
from harmonaize.event_stream import EventStream
from harmonaize.events import Event, EventType, Missed
from harmonaize.flight import Flight, FlightCommunicator, FlightOperation, FlightRank
from harmonaize.jobs import (
    Communicator,
    CommunicatorRanks,
    CommunicatorSummary,
    EndedCommunicators,
    Forming,
    Job,
    JobSummary,
    Operation,
    Rank,
    Timed,
)
from harmonaize.notices import Answer, Promise, Promises
from harmonaize.offers import AnswerTerms, Offer, OfferOrder, OfferTerms, ProposedTerms
from harmonaize.policy import Policy, TenantPolicy
from harmonaize.progress import Progress
from harmonaize.requirements import Grant, Granted, Requirements, Shortfall
from harmonaize.tickets import NewTicket, Ticket, Tickets
from harmonaize.verdicts import Root, Verdict, VerdictOperation

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AnswerError",
    "AnswerTerms",
    "AsyncEventStream",
    "Caller",
    "CheckpointAdvice",
    "Client",
    "Communicator",
    "CommunicatorRanks",
    "CommunicatorSummary",
    "ConnectionLostError",
    "EndedCommunicators",
    "Event",
    "EventStream",
    "EventType",
    "FailureRate",
    "Flight",
    "FlightCommunicator",
    "FlightOperation",
    "FlightRank",
    "Forming",
    "Grant",
    "Granted",
    "HarmonaizeError",
    "Job",
    "JobSummary",
    "Missed",
    "NewTicket",
    "NoDaemonError",
    "Offer",
    "OfferOrder",
    "OfferTerms",
    "Operation",
    "Policy",
    "ProblemError",
    "Progress",
    "Promise",
    "Promises",
    "ProposedTerms",
    "Quantiles",
    "Rank",
    "Requirements",
    "Root",
    "SaveEstimate",
    "SaveInterval",
    "SaveMoment",
    "SavedCheckpoint",
    "Shortfall",
    "TenantPolicy",
    "Ticket",
    "Tickets",
    "Timed",
    "UntrustedDaemonError",
    "Usage",
    "Verdict",
    "VerdictOperation",
    "connect",
]
