"""Reads the folders that `torch.distributed.checkpoint` writes."""

from __future__ import annotations

import dataclasses
import functools
import math
import typing

from harmonaize.checkpoint.foreign.byte_source import ByteSource
from harmonaize.checkpoint.foreign.chunked_tensor import Chunk, ChunkedTensor
from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.folder import Folder
from harmonaize.checkpoint.foreign.foreign_checkpoint import ForeignCheckpoint, ForeignTensor
from harmonaize.checkpoint.foreign.known_classes import KNOWN_CLASSES
from harmonaize.checkpoint.foreign.lazy_tensor import LazyTensor, checked_shape
from harmonaize.checkpoint.foreign.limits import DEFAULT_LIMITS, Limits
from harmonaize.checkpoint.foreign.safetensors import is_safetensors, read_safetensors
from harmonaize.checkpoint.foreign.stand_ins import Record
from harmonaize.checkpoint.foreign.torch_archive import load_torch
from harmonaize.checkpoint.foreign.torch_values import element_type
from harmonaize.checkpoint.foreign.unpickler import unpickle

METADATA = ".metadata"
"""The file that is written last: a folder without it is no whole checkpoint."""

_Key = tuple[str, tuple[int, ...] | None]


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where an item lies."""

    file: str
    begin: int
    size: int
    transforms: tuple[object, ...]


def open_dcp(folder: Folder, limits: Limits = DEFAULT_LIMITS) -> ForeignCheckpoint:
    """Returns what a folder holds, by the names that the checkpoint gives.

    ForeignFormatError: it is no whole checkpoint, or its description is not sound.
    """
    return _Reader(folder, limits).open()


class _Reader:
    """One checkpoint, whose description is read, and whose items are read when they are needed."""

    def __init__(self, folder: Folder, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        source = folder.file(METADATA)
        self._where = source.name
        if source.size > limits.bytes:
            raise ForeignFormatError(f"{self._where} has {source.size} bytes; {limits.bytes} are read at most")
        root = unpickle(source.read(0, source.size), KNOWN_CLASSES, self._where, limits=limits)
        if not isinstance(root, Record) or root.class_name != "Metadata":
            raise ForeignFormatError(f"{self._where} is no description of a checkpoint")
        # Of each file that has a block of safetensors, where the block begins, and its tensors.
        self._blocks: dict[str, tuple[int, dict[str, LazyTensor]]] = {}
        self._places = self._read_places(root.fields.get("storage_data"))
        self._entries = self._mapping(root.fields.get("state_dict_metadata"))

    def open(self) -> ForeignCheckpoint:
        tensors: dict[str, ForeignTensor] = {}
        objects: dict[str, _Place] = {}
        for name, entry in self._entries.items():
            if not isinstance(name, str) or not isinstance(entry, Record):
                raise ForeignFormatError(f"{self._where} describes what has no name, or is neither tensor nor bytes")
            if entry.class_name == "BytesStorageMetadata":
                objects[name] = self._place(name, None)
            else:
                tensors[name] = self._tensor(name, entry)
        return ForeignCheckpoint("dcp", tensors, _LazyObjects(objects, self._object))

    def _mapping(self, value: object) -> dict[typing.Any, object]:
        if not isinstance(value, dict):
            raise ForeignFormatError(f"{self._where} lacks a part of a checkpoint's description")
        return value

    def _read_places(self, storage: object) -> dict[_Key, _Place]:
        found: dict[_Key, _Place] = {}
        for index, info in self._mapping(storage).items():
            fields = index.fields if isinstance(index, Record) else {}
            name, offset = fields.get("fqn"), fields.get("offset")
            if not isinstance(name, str) or not isinstance(info, Record):
                raise ForeignFormatError(f"{self._where} says where something lies that has no name")
            found[name, None if offset is None else checked_shape(offset)] = self._checked_place(info)
        self._shared = self._check_apart(found)
        return found

    def _check_apart(self, places: dict[_Key, _Place]) -> set[tuple[str, int]]:
        """Checks that no bytes are named twice. Otherwise a small file could be read as a million tensors.

        Returns the places that several tensors have. In a block of safetensors each is found by its own name.
        """
        shared: set[tuple[str, int]] = set()
        file, begin, end = "", -1, 0
        names: set[str] = set()
        for (name, _), place in sorted(places.items(), key=lambda item: (item[1].file, item[1].begin)):
            if place.file != file:
                file, begin, end = place.file, -1, 0
            if place.begin == begin and name not in names:
                shared.add((file, begin))
            elif place.begin < end:
                raise self._named_twice(place)
            else:
                begin, names = place.begin, set()
            names.add(name)
            end = max(end, place.begin + place.size)
        return shared

    def _named_twice(self, place: _Place) -> ForeignFormatError:
        return ForeignFormatError(f"{self._where} names bytes of {quoted(place.file)} twice")

    def _checked_place(self, info: Record) -> _Place:
        file, begin, size = (info.fields.get(name) for name in ("relative_path", "offset", "length"))
        transforms = info.fields.get("transform_descriptors") or ()
        if not isinstance(file, str) or type(begin) is not int or type(size) is not int or min(begin, size) < 0:
            raise ForeignFormatError(f"{self._where} has a place that is no file, offset and length")
        if not isinstance(transforms, tuple | list):
            raise ForeignFormatError(f"{self._where} has transformations that are no list")
        return _Place(file, begin, size, tuple(transforms))

    def _place(self, name: str, offset: tuple[int, ...] | None) -> _Place:
        place = self._places.get((name, offset))
        if place is None and offset is not None and not any(offset):
            # PyTorch names a tensor that lies in one part without an offset, too.
            place = self._places.get((name, None))
        if place is None:
            raise ForeignFormatError(f"{self._where} does not say where a part of {quoted(name)} lies")
        return place

    def _tensor(self, name: str, entry: Record) -> ChunkedTensor:
        properties, parts = entry.fields.get("properties"), entry.fields.get("chunks")
        if (
            entry.class_name != "TensorStorageMetadata"
            or not isinstance(properties, Record)
            or not isinstance(parts, list)
        ):
            raise ForeignFormatError(f"{self._where} describes {quoted(name)} by what is no tensor")
        dtype = properties.arguments[0] if properties.arguments else properties.fields.get("dtype")
        chunks = [self._chunk(name, part) for part in parts]
        return ChunkedTensor(name, element_type(dtype), checked_shape(entry.fields.get("size")), chunks)

    def _chunk(self, name: str, part: object) -> Chunk:
        if not isinstance(part, Record):
            raise ForeignFormatError(f"{self._where} has a part of {quoted(name)} that is none")
        offset = checked_shape(part.fields.get("offsets"))
        shape = checked_shape(part.fields.get("sizes"))
        if math.prod(shape) == 0:
            return Chunk(offset, shape, _never)
        return Chunk(offset, shape, functools.partial(self._open_chunk, self._place(name, offset), name))

    def _open_chunk(self, place: _Place, name: str) -> LazyTensor:
        file = self._folder.file(place.file)
        if not place.transforms and is_safetensors(file.part(place.begin, file.size - place.begin)):
            return self._in_block(file, place, name)
        tensor = load_torch(self._source(place, name), self._limits)
        if not isinstance(tensor, LazyTensor):
            raise ForeignFormatError(f"{quoted(place.file)} has no tensor where a part of {quoted(name)} should be")
        if tensor.count * tensor.type.bytes > place.size:
            raise ForeignFormatError(f"{quoted(place.file)} has a part of {quoted(name)} that is larger than its bytes")
        return tensor

    def _in_block(self, file: ByteSource, place: _Place, name: str) -> LazyTensor:
        """Returns a tensor of the block of safetensors that is the rest of a file, as SerializationFormat.SAFETENSORS
        has it.
        """
        if place.file not in self._blocks:
            rest = file.part(place.begin, file.size - place.begin)
            self._blocks[place.file] = (place.begin, read_safetensors(rest).tensors)
        begin, tensors = self._blocks[place.file]
        if begin != place.begin or name not in tensors:
            raise ForeignFormatError(f"{quoted(place.file)} has no part of {quoted(name)} where it should be")
        return tensors[name]

    def _object(self, name: str, place: _Place) -> object:
        return load_torch(self._source(place, name), self._limits)

    def _source(self, place: _Place, name: str) -> ByteSource:
        if place.transforms:
            raise ForeignFormatError(
                f"{quoted(name)} is stored transformed by {quoted(place.transforms[0])}, which is not read: save the "
                "checkpoint without extensions",
            )
        if (place.file, place.begin) in self._shared:
            raise self._named_twice(place)
        return self._folder.file(place.file).part(place.begin, place.size)


def _never() -> LazyTensor:
    raise AssertionError("a part without elements is never read")


class _LazyObjects(typing.Mapping[str, object]):
    """Objects that are read when they are asked for, and kept then."""

    def __init__(self, places: dict[str, _Place], load: typing.Callable[[str, _Place], object]) -> None:
        self._places = places
        self._load = load
        self._kept: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        if name not in self._kept:
            self._kept[name] = self._load(name, self._places[name])
        return self._kept[name]

    def __iter__(self) -> typing.Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
