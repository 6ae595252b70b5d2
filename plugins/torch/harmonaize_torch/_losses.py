"""Ranks that are gone."""

from __future__ import annotations

import typing


def lost_ranks(group: typing.Any = None) -> list[int]:
    """Returns the ranks of the group, the default one if it is None, that are gone, rising: those to leave out of
    `shrink_group`.

    A rank is gone once it has died, has ended its part in the group, or its host's daemon is lost. The daemon is asked,
    so all ranks are told the same. Another rank may be lost right afterwards: then the shrink fails at all ranks, and
    they ask again. RuntimeError: the daemon cannot be asked.
    """
    # Not at the top: PyTorch may be in the middle of its own import.
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    from harmonaize_torch import _native  # noqa: PLC0415

    one: typing.Any = dist.distributed_c10d._get_default_group() if group is None else group  # noqa: SLF001
    # From 2.0 on a group has a backend for each kind of device.
    backend = one._get_backend(torch.device("cpu")) if hasattr(one, "_get_backend") else one  # noqa: SLF001
    return _native.lost_ranks(backend)
