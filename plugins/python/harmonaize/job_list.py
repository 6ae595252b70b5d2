"""The list of jobs, which calls and asyncio both ask for."""

from __future__ import annotations

import typing

from harmonaize.documents import Fields
from harmonaize.jobs import JobSummary
from harmonaize.request import Request

JOBS = Request("GET", "/v1/jobs")


def job_list(document: typing.Any) -> tuple[JobSummary, ...]:
    """Reads /v1/jobs."""
    return Fields(document, "/v1/jobs").objects("jobs", JobSummary.from_fields)
