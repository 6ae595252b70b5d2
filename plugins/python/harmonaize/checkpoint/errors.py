"""Errors of checkpoints."""

from __future__ import annotations

from harmonaize.errors import HarmonaizeError


class CheckpointError(HarmonaizeError):
    """A checkpoint could not be stored, or has not what is asked for. The sentence names it."""


class NoCheckpointError(CheckpointError):
    """There is no checkpoint of the job."""
