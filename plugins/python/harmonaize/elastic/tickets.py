"""Tickets, by which processes join a job that runs."""

from __future__ import annotations

import ctypes
import os
import time
import typing

from harmonaize.elastic.errors import ElasticError
from harmonaize.nccl import Communicator, Result, UniqueId, library
from harmonaize.nccl.library import RawUniqueId

# HZ_TICKET_BYTES of harmonaize.h.
_TICKET_BYTES = 256
# Milliseconds that one call waits for a place: ctypes cannot be interrupted meanwhile. The daemon keeps a newcomer's
# turn for five seconds between two calls.
_JOIN_MILLISECONDS = 500

_OUT_INT = ctypes.POINTER(ctypes.c_int)


class _Place(ctypes.Structure):
    """hzPlace_t."""

    _fields_: typing.ClassVar = [
        ("size", ctypes.c_size_t),
        ("id", RawUniqueId),
        ("ranks", ctypes.c_int),
        ("rank", ctypes.c_int),
    ]


def given() -> bool:
    """Returns whether this process was given a ticket."""
    return bool(os.environ.get("HARMONAIZE_TICKET_FILE"))


def join(patience_seconds: float, ticket: str | None = None) -> Communicator:
    """Waits until the job of HARMONAIZE_JOB takes this process, and returns the communicator to which it has grown.
    Without `ticket` it is in the file that HARMONAIZE_TICKET_FILE names.

    ElasticError: the job's name is not given, or it has not taken this process in time; NcclError: the ticket is not
    valid; LibraryError: the library knows no tickets.
    """
    job = os.environ.get("HARMONAIZE_JOB")
    if not job:
        raise ElasticError("there is a ticket, but HARMONAIZE_JOB names no job to join")
    end = time.monotonic() + patience_seconds
    while time.monotonic() < end:
        place = _await_place(job, ticket)
        if place is not None:
            return Communicator.join_growth(UniqueId(bytes(place.id)), place.ranks, place.rank)
    raise ElasticError(f"the job {job} has not taken this newcomer in {patience_seconds} s: its ranks admit by check()")


def make(communicator: Communicator, uses: int, seconds: float) -> str:
    """Returns a ticket with which `uses` processes of this user can join within `seconds`. It is a secret.

    NcclError: the numbers are out of range, or there are too many tickets; LibraryError: the library knows none.
    """
    text = ctypes.create_string_buffer(_TICKET_BYTES)
    types = [ctypes.c_void_p, ctypes.c_int, ctypes.c_double, ctypes.c_char_p]
    _call("hzMakeTicket", types, communicator.handle, uses, seconds, text)
    return text.value.decode()


def waiting(communicator: Communicator) -> int:
    """Returns how many newcomers wait. 0 where the library knows no tickets, since none can have come."""
    if not known():
        return 0
    number = ctypes.c_int()
    _call("hzNewcomers", [ctypes.c_void_p, _OUT_INT], communicator.handle, ctypes.byref(number))
    return number.value


def admit(communicator: Communicator, most: int) -> int:
    """Gives newcomers places, and returns the size to which the communicator grows with them. NcclError as `make`."""
    ranks = ctypes.c_int()
    types = [ctypes.c_void_p, ctypes.c_int, _OUT_INT]
    _call("hzAdmit", types, communicator.handle, most, ctypes.byref(ranks))
    return ranks.value


def _await_place(job: str, ticket: str | None) -> _Place | None:
    place = _Place(size=ctypes.sizeof(_Place), rank=-1)
    types = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(_Place)]
    functions = library()
    code = functions.optional("hzJoinJob", types)(
        job.encode(), None if ticket is None else ticket.encode(), _JOIN_MILLISECONDS, ctypes.byref(place)
    )
    if code == Result.IN_PROGRESS:
        return None
    functions.check("hzJoinJob", code)
    return place


def known() -> bool:
    """Returns whether the library knows tickets."""
    return library().has("hzNewcomers")


def _call(name: str, types: list[typing.Any], *arguments: typing.Any) -> None:
    functions = library()
    functions.check(name, functions.optional(name, types)(*arguments), arguments[0])
