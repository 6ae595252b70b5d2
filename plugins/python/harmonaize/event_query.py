"""Which events a reader wants, and from where on."""

from __future__ import annotations

import collections.abc
import dataclasses
import re
import typing

from harmonaize.errors import ProblemError
from harmonaize.jobs import JobSummary
from harmonaize.request import Request, check_header_value

Types = str | typing.Iterable[str]
From = typing.Literal["start", "now"]

_PATH = "/v1/events"
_JOB_ID = re.compile("[0-9a-f]{32}")
_CONFLICT = 409


@dataclasses.dataclass(frozen=True)
class EventQuery:
    """The parameters of /v1/events. `after` None: from `begin` on."""

    types: str | None
    job: str | None
    severity: str | None
    after: str | None
    begin: From

    @classmethod
    def of(
        cls, types: Types | None, job: str | None, severity: str | None, after: str | None, begin: From
    ) -> EventQuery:
        """Returns a query. ValueError: a value that no query can have. The daemon refuses unknown names."""
        if begin not in {"start", "now"}:
            raise ValueError(f"events begin from 'start' or 'now', not {begin!r}")
        if job is not None and not job:
            raise ValueError("a job's name is not empty; leave it out to hear of all jobs")
        if after is not None:
            check_header_value(after, "the id of an event")
        if types is not None and not isinstance(types, str) and isinstance(types, collections.abc.Iterable):
            types = ",".join(types)
        return cls(types, job, severity, after, begin)

    @property
    def names_a_job_by_name(self) -> bool:
        """Whether the job is not named by its whole id."""
        return self.job is not None and _JOB_ID.fullmatch(self.job) is None

    def with_job(self, jobs: typing.Iterable[JobSummary]) -> EventQuery:
        """Returns the query with the id of the job that it names, if it is among these. Otherwise the daemon is left to
        find it among the jobs whose events are kept. ProblemError: several have this name, or ids that begin so.
        """
        name = self.job or ""
        known = tuple(jobs)
        named = [job for job in known if job.name == name]
        if len({job.tenant for job in named}) > 1:
            raise ProblemError(_CONFLICT, "Conflict", f"jobs of several tenants are named '{name}'; give an id")
        # Of several jobs with one name the one that began last is meant: the list is in the order of beginnings.
        found = named[-1:] or [job for job in known if job.id.startswith(name)]
        if len(found) > 1:
            raise ProblemError(_CONFLICT, "Conflict", f"the ids of several jobs begin with '{name}'; say more of it")
        return dataclasses.replace(self, job=found[0].id) if found else self

    def stream_request(self, position: str | None) -> Request:
        """Returns the request for a stream that goes on behind `position`."""
        headers = {"Accept": "text/event-stream"}
        if position is not None:
            headers["Last-Event-ID"] = position
        return Request("GET", _PATH, {"follow": "true", "from": self.begin, **self._filter()}, headers)

    def page_request(self, position: str | None, limit: int) -> Request:
        """Returns the request for the page of kept events behind `position`."""
        begin = {"from": self.begin} if position is None else {}
        query = {"follow": "false", "limit": limit, "after": position, **begin, **self._filter()}
        return Request("GET", _PATH, query)

    def _filter(self) -> dict[str, str | None]:
        return {"types": self.types, "job": self.job, "severity": self.severity}
