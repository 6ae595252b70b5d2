"""Tensors in memory that the daemon maps too."""

from __future__ import annotations

import math
import typing

if typing.TYPE_CHECKING:
    import torch


def empty(*size: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Returns a zeroed tensor on which operations copy nothing.

    It works with every version of PyTorch, with and without a group. The memory is taken in whole pages,
    and counts against the tenant's quota.
    """
    # Not at the top: PyTorch may be in the middle of its own import.
    import torch as pytorch  # noqa: PLC0415

    from harmonaize_torch import _native  # noqa: PLC0415

    wanted = pytorch.get_default_dtype() if dtype is None else dtype
    item = pytorch.empty(0, dtype=wanted).element_size()
    return _native.allocate(math.prod(size) * item).view(wanted).view(size)
