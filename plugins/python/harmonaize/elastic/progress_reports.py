"""What rank 0 tells the provider of how far the training has come."""

from __future__ import annotations

import contextlib
import os
import time
import typing

import harmonaize
from harmonaize.elastic.policies import Share

ProgressFunction = typing.Callable[[typing.Any], typing.Mapping[str, float]]
"""Returns, of a state, what is told besides the steps: arguments of `report_progress` by name, as `loss`."""

# Seconds between two reports. A daemon that decides whom to offer ranks times steps by a handful of them.
_REPORT_SECONDS = 0.5


def steps_alone(state: object) -> typing.Mapping[str, float]:
    """Returns nothing: commits count as steps, and the batch is that of the policies."""
    del state
    return {}


class ProgressReports:
    """Tells the daemon now and then how far the job of HARMONAIZE_JOB has come. One that cannot be told is not."""

    def __init__(self, more: ProgressFunction | None) -> None:
        """Takes what is told besides; None: nothing is told at all."""
        self._job = os.environ.get("HARMONAIZE_JOB")
        self._more = more
        self._told_at = 0.0
        self._step = 0

    def look(self, state: object, commits: int, shares: typing.Mapping[str, typing.Any]) -> None:
        """Tells it, if a while has passed and there is news. `commits` is the number of commits."""
        now = time.monotonic()
        if self._job is None or self._more is None or commits == self._step or now - self._told_at < _REPORT_SECONDS:
            return
        self._told_at, self._step = now, commits
        told: dict[str, float] = {}
        batches = [share.global_batch for share in shares.values() if isinstance(share, Share)]
        if len(batches) == 1:
            told["batch_size"] = batches[0]
        told.update(self._more(state))
        with contextlib.suppress(harmonaize.HarmonaizeError):
            harmonaize.connect().report_progress(self._job, commits, **told)
