"""Checkpoints that others wrote: safetensors, PyTorch and DeepSpeed.

    checkpoint = open_foreign("/checkpoints/step-1000")
    for name, tensor in checkpoint.tensors.items():
        print(name, tensor.type.value, tensor.shape)
    weights = checkpoint.read("model.layers.0.weight", offset=(0, 0), shape=(16, 4096))

No file runs anything: classes that are not known are refused, by name. docs/checkpoint-formats.md says what is read.
"""

from harmonaize.checkpoint.foreign.errors import ForeignFormatError
from harmonaize.checkpoint.foreign.foreign_checkpoint import ForeignCheckpoint, ForeignTensor
from harmonaize.checkpoint.foreign.limits import Limits
from harmonaize.checkpoint.foreign.opening import open_foreign

__all__ = ["ForeignCheckpoint", "ForeignFormatError", "ForeignTensor", "Limits", "open_foreign"]
