"""Reads files of `torch.save`."""

from __future__ import annotations

from harmonaize.checkpoint.foreign.byte_source import ByteSource
from harmonaize.checkpoint.foreign.foreign_checkpoint import ForeignCheckpoint
from harmonaize.checkpoint.foreign.limits import DEFAULT_LIMITS, Limits
from harmonaize.checkpoint.foreign.names import flatten
from harmonaize.checkpoint.foreign.torch_archive import load_torch


def open_torch_file(source: ByteSource, limits: Limits = DEFAULT_LIMITS) -> ForeignCheckpoint:
    """Returns what a file of `torch.save` holds. The name of a single tensor is empty. Errors: as of `load_torch`."""
    flat = flatten(load_torch(source, limits), source.name)
    return ForeignCheckpoint("torch", flat.tensors, flat.objects)
