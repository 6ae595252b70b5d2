"""Checkpoints for torch.distributed.checkpoint.

    import torch.distributed.checkpoint as dcp
    from harmonaize.checkpoint.torch import StorageReader, StorageWriter

    dcp.async_save(state, storage_writer=StorageWriter("/shared/checkpoints/my-training", step=step))
    dcp.load(state, storage_reader=StorageReader("/shared/checkpoints/my-training"))

docs/pytorch.md tells how, and what it needs.
"""

from harmonaize.checkpoint.torch.communicators import communicator_of_group
from harmonaize.checkpoint.torch.storage_reader import StorageReader
from harmonaize.checkpoint.torch.storage_writer import StorageWriter

__all__ = ["StorageReader", "StorageWriter", "communicator_of_group"]
