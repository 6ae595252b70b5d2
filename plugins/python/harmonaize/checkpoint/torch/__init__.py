"""Checkpoints for torch.distributed.checkpoint.

    import torch.distributed.checkpoint as dcp
    from harmonaize.checkpoint.torch import StorageReader, StorageWriter

    dcp.async_save(state, storage_writer=StorageWriter("/shared/checkpoints/my-training", step=step))
    dcp.load(state, storage_reader=StorageReader("/shared/checkpoints/my-training"))

docs/pytorch.md tells how, and what it needs.
"""

from __future__ import annotations

import importlib
import typing

from harmonaize.checkpoint.torch.communicators import communicator_of_group

if typing.TYPE_CHECKING:
    from harmonaize.checkpoint.torch.storage_reader import StorageReader
    from harmonaize.checkpoint.torch.storage_writer import StorageWriter

__all__ = ["StorageReader", "StorageWriter", "communicator_of_group"]

_LATER = {"StorageReader": "storage_reader", "StorageWriter": "storage_writer"}


def __getattr__(name: str) -> typing.Any:
    """Imports what needs torch.distributed.checkpoint, when it is asked for: some PyTorch's have none."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
