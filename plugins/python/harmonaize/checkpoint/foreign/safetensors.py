"""Reads files of safetensors, and folders of them."""

from __future__ import annotations

import math
import struct
import typing

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.foreign.byte_source import ByteSource
from harmonaize.checkpoint.foreign.chunked_tensor import Chunk, ChunkedTensor
from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.folder import Folder
from harmonaize.checkpoint.foreign.foreign_checkpoint import ForeignCheckpoint, ForeignTensor
from harmonaize.checkpoint.foreign.json_text import parse_json
from harmonaize.checkpoint.foreign.lazy_tensor import LazyTensor, checked_shape

SUFFIX = ".safetensors"
"""How names of such files end."""

INDEX = "model.safetensors.index.json"
"""The file that says which tensor of a model lies in which file."""

# Longest header, in bytes: the format's own bound.
_LONGEST_HEADER = 100_000_000

# The header's length in front of it.
_LENGTH = struct.Struct("<Q")

_METADATA = "__metadata__"

# The entry of the metadata in which PyTorch's HuggingFaceStorageWriter keeps where in its tensor each part lies.
_SHARDING = "DCP_SHARDING_INFO"


class SafetensorsFile(typing.NamedTuple):
    """What one file holds."""

    tensors: dict[str, LazyTensor]
    metadata: dict[str, str]


def is_safetensors(source: ByteSource) -> bool:
    """Returns whether bytes begin as the format does: a length, and the brace of its header."""
    head = source.read(0, min(source.size, _LENGTH.size + 1))
    return head[_LENGTH.size :] == b"{"


def open_safetensors_file(source: ByteSource) -> ForeignCheckpoint:
    """Returns what a file holds; its metadata are the objects. ForeignFormatError: it breaks a rule of the format."""
    file = read_safetensors(source)
    return ForeignCheckpoint("safetensors", file.tensors, file.metadata)


def open_safetensors_folder(folder: Folder) -> ForeignCheckpoint:
    """Returns what the files of a folder hold together.

    ForeignFormatError: a file breaks a rule of the format, the index names what is not there, or two files have one
    name and do not say which parts of a tensor they hold.
    """
    if folder.has(INDEX):
        return ForeignCheckpoint("safetensors", _indexed(folder), {})
    files = {name: read_safetensors(folder.file(name)) for name in folder.names() if name.endswith(SUFFIX)}
    if all(_SHARDING in file.metadata for file in files.values()):
        return ForeignCheckpoint("safetensors", _sharded(files), {})
    tensors: dict[str, ForeignTensor] = {}
    for file_name, file in files.items():
        for name, tensor in file.tensors.items():
            if name in tensors:
                raise ForeignFormatError(
                    f"{quoted(file_name)} holds the tensor {quoted(name)}, which another file holds too"
                )
            tensors[name] = tensor
    return ForeignCheckpoint("safetensors", tensors, {})


def read_safetensors(source: ByteSource) -> SafetensorsFile:
    """Returns what a file holds. ForeignFormatError: it breaks a rule of the format."""
    (length,) = _LENGTH.unpack(source.read(0, _LENGTH.size))
    if length > _LONGEST_HEADER:
        raise ForeignFormatError(f"{source.name} has a header of {length} bytes; the format allows {_LONGEST_HEADER}")
    header = source.read(_LENGTH.size, length)
    if not header.startswith(b"{"):
        raise ForeignFormatError(f"{source.name} is no file of safetensors: its header is no JSON object")
    entries = parse_json(header, source.name)
    metadata = _checked_metadata(entries.pop(_METADATA, {}), source)
    begin = _LENGTH.size + length
    return SafetensorsFile(_tensors(entries, source.part(begin, source.size - begin)), metadata)


def _checked_metadata(metadata: object, source: ByteSource) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ForeignFormatError(f"{source.name} has metadata that are no texts by name")
    return metadata


def _tensors(entries: dict[str, typing.Any], data: ByteSource) -> dict[str, LazyTensor]:
    found: dict[str, LazyTensor] = {}
    ranges = []
    for name, entry in entries.items():
        kind, shape, begin, end = _checked_entry(name, entry, data)
        if end - begin != math.prod(shape) * kind.bytes:
            raise ForeignFormatError(
                f"{data.name} has {end - begin} bytes for the tensor {quoted(name)}, which needs "
                f"{math.prod(shape) * kind.bytes}",
            )
        ranges.append((begin, end, name))
        found[name] = LazyTensor(kind, shape, data.part(begin, end - begin))
    at = 0
    for begin, end, name in sorted(ranges):
        if begin != at:
            raise ForeignFormatError(f"{data.name} has a hole or an overlap before the tensor {quoted(name)}")
        at = end
    if at != data.size:
        raise ForeignFormatError(f"{data.name} has {data.size - at} bytes that belong to no tensor")
    return found


def _checked_entry(name: str, entry: object, data: ByteSource) -> tuple[ElementType, tuple[int, ...], int, int]:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ForeignFormatError(
            f"{data.name} does not describe the tensor {quoted(name)} by dtype, shape and data_offsets"
        )
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in ElementType.__members__:
        known = ", ".join(ElementType.__members__)
        raise ForeignFormatError(
            f"{data.name} has the tensor {quoted(name)} of {quoted(kind)}; known types are {known}"
        )
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != len(("begin", "end")):
        raise ForeignFormatError(f"{data.name} has the tensor {quoted(name)} with a shape or a place that is none")
    begin, end = offsets
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= end <= data.size:
        raise ForeignFormatError(f"{data.name} has the tensor {quoted(name)} outside of its {data.size} bytes")
    return ElementType(kind), checked_shape(tuple(shape)), begin, end


def _indexed(folder: Folder) -> dict[str, ForeignTensor]:
    source = folder.file(INDEX)
    if source.size > _LONGEST_HEADER:
        raise ForeignFormatError(f"{source.name} has {source.size} bytes; {_LONGEST_HEADER} are read at most")
    places = parse_json(source.read(0, source.size), source.name).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
        raise ForeignFormatError(f"{source.name} has no weight_map of files by tensor")
    files = {name: read_safetensors(folder.file(name)).tensors for name in sorted(set(places.values()))}
    found: dict[str, ForeignTensor] = {}
    for name, file_name in places.items():
        tensor = files[file_name].get(name)
        if tensor is None:
            raise ForeignFormatError(
                f"{source.name} says that {quoted(file_name)} holds {quoted(name)}, which it does not"
            )
        found[name] = tensor
    return found


def _sharded(files: dict[str, SafetensorsFile]) -> dict[str, ForeignTensor]:
    chunks: dict[str, list[Chunk]] = {}
    types: dict[str, ElementType] = {}
    for file_name, file in files.items():
        places = parse_json(file.metadata[_SHARDING].encode(errors="replace"), quoted(file_name))
        for name, tensor in file.tensors.items():
            place = places.get(name)
            offset = place.get("saved_offsets") if isinstance(place, dict) else None
            if not isinstance(offset, list) or len(offset) != len(tensor.shape):
                raise ForeignFormatError(f"{quoted(file_name)} does not say where in {quoted(name)} its part lies")
            if types.setdefault(name, tensor.type) != tensor.type:
                raise ForeignFormatError(f"{quoted(file_name)} holds {quoted(name)} with another type than other files")
            chunks.setdefault(name, []).append(_chunk(checked_shape(tuple(offset)), tensor))
    return {name: ChunkedTensor(name, types[name], _whole(name, parts), parts) for name, parts in chunks.items()}


def _chunk(offset: tuple[int, ...], tensor: LazyTensor) -> Chunk:
    return Chunk(offset, tensor.shape, lambda: tensor)


def _whole(name: str, parts: list[Chunk]) -> tuple[int, ...]:
    """Returns the shape of the tensor that has these parts: the files do not say it."""
    if len({len(part.shape) for part in parts}) != 1:
        raise ForeignFormatError(f"the parts of {quoted(name)} have different numbers of dimensions")
    ends = [[first + extent for first, extent in zip(part.offset, part.shape, strict=True)] for part in parts]
    return checked_shape(tuple(max(extents) for extents in zip(*ends, strict=True)))
