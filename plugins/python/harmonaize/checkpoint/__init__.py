"""Checkpoints of a training: saved without a stall, kept beyond the ranks' end, and read by any number of ranks.

    from harmonaize import checkpoint

    with checkpoint.Checkpointer(communicator, "/shared/checkpoints/my-training") as saver:
        for step in range(first, last):
            ...
            if step % 100 == 0:
                saver.save(step, {"model": model.state_dict(), "step": step}, replicated=True)

    step = checkpoint.load(state, communicator, "/shared/checkpoints/my-training")

docs/python.md has the whole of it. `harmonaize.checkpoint.torch` serves torch.distributed.checkpoint, and
`harmonaize.checkpoint.foreign` reads what other programs wrote.
"""

from harmonaize.checkpoint.checkpointer import Checkpointer, SaveState
from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.errors import CheckpointError, NoCheckpointError
from harmonaize.checkpoint.loading import load
from harmonaize.checkpoint.names import PROVIDER_STORE
from harmonaize.checkpoint.saved_checkpoint import SavedCheckpoint, SavedTensor
from harmonaize.checkpoint.saved_checkpoint import open_checkpoint as open  # noqa: A004
from harmonaize.checkpoint.shard import Shard

__all__ = [
    "PROVIDER_STORE",
    "CheckpointError",
    "Checkpointer",
    "ElementType",
    "NoCheckpointError",
    "SaveState",
    "SavedCheckpoint",
    "SavedTensor",
    "Shard",
    "load",
    "open",
]
