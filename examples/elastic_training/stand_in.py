"""Acts for the job where it does not act by itself yet: accepts offers, and does what was agreed."""

from __future__ import annotations

import subprocess
import typing

import harmonaize

from provider import Provider


def follow_reclaim(provider: Provider, offer: str) -> None:
    """Accepts the offer. The rank leaves because of the event that tells of it."""
    harmonaize.connect(provider.socket).accept_offer(offer)


def follow_grow(provider: Provider, job: str, offer: str, command: typing.Sequence[str]) -> subprocess.Popen[bytes]:
    """Accepts the offer, and starts a newcomer."""
    tenant = harmonaize.connect(provider.socket)
    tenant.accept_offer(offer)
    identity = next(one.id for one in tenant.jobs() if one.name == job and one.ended is None)
    file = provider.folder / "ticket"
    file.touch(mode=0o600)
    file.write_text(tenant.make_ticket(identity).ticket)
    environment = provider.environment(HARMONAIZE_JOB=job, HARMONAIZE_TICKET_FILE=str(file))
    return subprocess.Popen(command, env=environment)
