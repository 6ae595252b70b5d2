"""Communicators for the ranks of PyTorch's default process group."""

from __future__ import annotations

import typing

import torch.distributed as dist

from harmonaize.nccl import Communicator, UniqueId

_KEY = "harmonaize/checkpoint/id"
_NAME = "checkpoints"

# By process group. None stands for a process that has none.
_made: dict[typing.Any, Communicator] = {}


def communicator_of_group() -> Communicator:
    """Returns a communicator of the default process group's ranks, or of this process alone where there is no group.
    All ranks call it, and get the same one again as long as the group is the same.

    Errors: NcclError: there is no daemon, or a rank is lost.
    """
    group = dist.group.WORLD if dist.is_available() and dist.is_initialized() else None
    known = _made.get(group)
    if known is not None and not known.ended:
        return known
    made = _alone() if group is None else _of_store()
    # Other groups are of ranks that have changed since.
    for other in _made.values():
        other.abort()
    _made.clear()
    _made[group] = made
    return made


def _alone() -> Communicator:
    return Communicator.init(UniqueId.new(), 1, 0, _NAME)


def _of_store() -> Communicator:
    """Makes a communicator by an id that rank 0 tells the others over the group's store, which needs no operation of
    the group and no GPU.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    store: typing.Any = dist.distributed_c10d._get_default_store()  # noqa: SLF001
    if rank == 0:
        store.set(_KEY, bytes(UniqueId.new()).hex())
    made = Communicator.init(UniqueId(bytes.fromhex(store.get(_KEY).decode())), size, rank, _NAME)
    # All have read the id, or the communicator would not have formed. A later group with this store needs another one.
    if rank == 0:
        store.delete_key(_KEY)
    return made
