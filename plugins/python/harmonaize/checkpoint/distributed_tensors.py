"""PyTorch's tensors that several ranks hold together: DTensor and ShardedTensor."""

from __future__ import annotations

import functools
import math
import sys
import typing
import zlib

from harmonaize.checkpoint.shard import Shape, Shard

# Boxes from this size on are divided among the ranks that have the same; smaller ones are one rank's. Dividing costs
# each rank a shard's description, some 200 bytes.
_DIVIDED_BYTES = 1 << 16


@functools.cache
def _dtensor_class() -> type | None:
    for module in ("torch.distributed.tensor", "torch.distributed._tensor"):
        try:
            found: type = __import__(module, fromlist=["DTensor"]).DTensor
        except (ImportError, AttributeError):
            continue
        return found
    return None


def is_distributed(value: typing.Any) -> bool:
    """Returns whether a value is a DTensor or a ShardedTensor. It does not import PyTorch, which takes seconds."""
    if "torch" not in sys.modules:
        return False
    kind = _dtensor_class()
    return hasattr(value, "local_shards") or (kind is not None and isinstance(value, kind))


def boxes_of(name: str, value: typing.Any, *, each_once: bool) -> list[Shard]:
    """Returns the boxes that this rank holds of a DTensor or a ShardedTensor.

    `each_once`: where ranks have the same box, each gets a part of it. TypeError: the tensor's ranks have sums that are
    not formed yet, or this PyTorch does not say which elements a rank has.
    """
    if hasattr(value, "local_shards"):
        whole = tuple(value.size())
        return [Shard(one.tensor, whole, tuple(one.metadata.shard_offsets)) for one in value.local_shards()]
    return _boxes_of_dtensor(name, value, each_once=each_once)


def _boxes_of_dtensor(name: str, value: typing.Any, *, each_once: bool) -> list[Shard]:
    mesh, placements = value.device_mesh, value.placements
    place = mesh.get_coordinate()
    if place is None:
        return []
    if any(one.is_partial() for one in placements):
        raise TypeError(f"'{name}' is a DTensor whose sum is not formed: redistribute it, or call full_tensor(), first")
    shape, offset = _local_box(value, mesh, placements)
    local = value.to_local()
    whole = tuple(value.shape)
    if tuple(local.shape) != shape:
        raise TypeError(
            f"'{name}' is a DTensor with elements of this rank in several boxes, which PyTorch does not tell"
        )
    box = Shard(local, whole, offset)
    if not each_once:
        return [box]
    replica, replicas = 0, 1
    for placement, here, length in zip(placements, place, mesh.shape, strict=True):
        if placement.is_replicate():
            replica, replicas = replica * length + here, replicas * length
    return _part_of_replica(name, box, replica, replicas)


def _local_box(value: typing.Any, mesh: typing.Any, placements: typing.Any) -> tuple[Shape, Shape]:
    shape, offset = _box_function()(value.shape, mesh, placements)
    shape, offset = tuple(shape), tuple(offset)
    if math.prod(shape) == 0:
        # PyTorch lets a box without elements begin beyond the end.
        offset = tuple(min(begin, most) for begin, most in zip(offset, value.shape, strict=True))
    return shape, offset


@functools.cache
def _box_function() -> typing.Callable[..., typing.Any]:
    for module in ("torch.distributed.tensor._utils", "torch.distributed._tensor._utils"):
        try:
            found: typing.Callable[..., typing.Any] = __import__(
                module, fromlist=["_"]
            ).compute_local_shape_and_global_offset
        except (ImportError, AttributeError):
            continue
        return found
    raise TypeError("this PyTorch does not tell which elements of a DTensor a rank has: install 2.2 or later")


def _part_of_replica(name: str, box: Shard, replica: int, replicas: int) -> list[Shard]:
    """Returns what one of the ranks that have the same box saves of it."""
    data = box.data
    shape = tuple(data.shape)
    leading = next((at for at, length in enumerate(shape) if length > 1), 0)
    divided = bool(shape) and data.numel() * data.element_size() >= _DIVIDED_BYTES and shape[leading] >= replicas
    if not divided:
        return [box] if zlib.crc32(name.encode()) % replicas == replica else []
    begin, end = (shape[leading] * one // replicas for one in (replica, replica + 1))
    offset = (*box.offset[:leading], box.offset[leading] + begin, *box.offset[leading + 1 :])
    return [Shard(data.narrow(leading, begin, end - begin), box.global_shape, offset)]
