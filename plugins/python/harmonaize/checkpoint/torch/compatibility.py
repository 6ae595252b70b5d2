"""What torch.distributed.checkpoint is called in PyTorch 1.13, and in those from 2.0 on."""

from __future__ import annotations

import importlib
import typing

_PACKAGES = ("torch.distributed.checkpoint", "torch.distributed._shard.checkpoint")


def part(name: str) -> typing.Any:
    """Returns a module of torch.distributed.checkpoint. ImportError: this PyTorch has none."""
    for package in _PACKAGES:
        try:
            return importlib.import_module(f"{package}.{name}")
        # PyTorch 1.13 fails with a ValueError under Python 3.11.
        except (ModuleNotFoundError, ValueError) as error:
            missing: Exception = error
    raise ImportError(f"this PyTorch's torch.distributed.checkpoint cannot be used: install 2.0 or later ({missing})")


def tensor_properties(dtype: typing.Any) -> typing.Any:
    """Returns the properties of a plain tensor of a type."""
    try:
        kind = part("metadata").TensorProperties
    except AttributeError:
        kind = importlib.import_module("torch.distributed._shard.sharded_tensor.metadata").TensorProperties
    return kind(dtype=dtype)
