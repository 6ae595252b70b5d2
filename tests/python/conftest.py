"""What the tests of the Python client share: one daemon for a run of pytest, and a job at it."""

from __future__ import annotations

import typing

import pytest

from daemons import BUILD, PROGRAMS, Daemon, Job, daemon_in_folder, job_at


@pytest.fixture(scope="session")
def daemon() -> typing.Iterator[Daemon]:
    """A daemon that all tests of the run use."""
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip(f"there is no daemon in {BUILD}: build the target harmonaized, or set HARMONAIZE_BUILD")
    with daemon_in_folder('[http]\nlisten = "127.0.0.1:0"\n') as one:
        yield one


@pytest.fixture(scope="session")
def job(daemon: Daemon) -> typing.Iterator[Job]:
    """A job of two ranks that stay, for tests that do nothing to them."""
    with job_at(daemon, "llama") as one:
        yield one
