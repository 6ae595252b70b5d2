"""Makes checkpoints as others write them, with nothing but Python: the files of torch.save, DCP and safetensors."""

from __future__ import annotations

import dataclasses
import io
import json
import pathlib
import pickle
import struct
import typing
import zipfile

import numpy as np

Array = typing.Any

# Classes of torch's storages by NumPy's types of elements. uint16 stands for the bits of bfloat16.
_STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "uint16": "BFloat16Storage",
}


@dataclasses.dataclass
class Tensor:
    """A tensor that is written: a storage, and where the tensor lies in it."""

    storage: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


def tensor(array: Array) -> Tensor:
    """Returns a tensor that has the elements of a contiguous array."""
    return Tensor(array.reshape(-1), array.shape, tuple(step // array.itemsize for step in array.strides))


class Global:
    """A name that a pickle has, whatever there is of this name."""

    def __init__(self, module: str, name: str) -> None:
        """Takes the module and the name in it."""
        self.module = module
        self.name = name


class Call:
    """An object that a pickle makes by calling a name."""

    def __init__(self, target: Global, *arguments: object, state: object = None) -> None:
        """Takes what is called, with what, and the state that the object is given then."""
        self.target = target
        self.arguments = arguments
        self.state = state


_PythonPickler: typing.Any = pickle._Pickler


class _Pickler(_PythonPickler):  # type: ignore[misc]
    """Writes names that need not exist, and tensors as torch.save does."""

    def __init__(self, file: typing.BinaryIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: list[Array] = []

    def persistent_id(self, value: object) -> object:
        if not isinstance(value, np.ndarray):
            return None
        known = [place for place, storage in enumerate(self.storages) if storage is value]
        if not known:
            self.storages.append(value)
        key = known[0] if known else len(self.storages) - 1
        return ("storage", Global("torch", _STORAGES[value.dtype.name]), str(key), "cpu", value.size)

    def save(self, value: object, save_persistent_id: bool = True) -> None:  # noqa: FBT001, FBT002
        if isinstance(value, Global):
            self.write(b"c" + f"{value.module}\n{value.name}\n".encode())
        elif isinstance(value, Call):
            self.save(value.target)
            self.save(value.arguments)
            self.write(pickle.REDUCE)
            if value.state is not None:
                self.save(value.state)
                self.write(pickle.BUILD)
        elif isinstance(value, Fields):
            self.save(value.target)
            self.write(pickle.EMPTY_TUPLE + pickle.NEWOBJ)
            if value.fields:
                self.save(value.fields)
                self.write(pickle.BUILD)
        elif isinstance(value, Tensor):
            hooks = Call(Global("collections", "OrderedDict"))
            parts = (value.storage, value.offset, value.shape, value.strides, False, hooks)
            self.save(Call(Global("torch._utils", "_rebuild_tensor_v2"), *parts))
        else:
            super().save(value, save_persistent_id)


def pickled(value: object, protocol: int = 2) -> tuple[bytes, list[Array]]:
    """Returns a pickle, and the storages of its tensors."""
    file = io.BytesIO()
    pickler = _Pickler(file, protocol)
    pickler.dump(value)
    return file.getvalue(), pickler.storages


def torch_saved(value: object) -> bytes:
    """Returns a file as torch.save writes it."""
    data, storages = pickled(value)
    return archive({"data.pkl": data} | {f"data/{key}": storage.tobytes() for key, storage in enumerate(storages)})


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Returns a zip file with these members below `archive/`."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        for name, data in members.items():
            made.writestr(f"archive/{name}", data)
    return file.getvalue()


def safetensors(header: object, data: bytes = b"") -> bytes:
    """Returns a file of safetensors with a header, which may be bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def describe(array: Array, begin: int, kind: str = "F32") -> dict[str, object]:
    """Returns how a header describes an array whose elements begin there."""
    return {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, begin + array.nbytes]}


class Fields:
    """An object of a data class: pickle makes it without its constructor, and gives it its fields."""

    def __init__(self, target: Global, **fields: object) -> None:
        """Takes the class, and the fields."""
        self.target = target
        self.fields = fields


class Classes:
    """The classes of `.metadata`, where a version of PyTorch has them."""

    def __init__(self, package: str, properties: str) -> None:
        """Takes the package of them, and the module of TensorProperties."""
        self._package = package
        self.properties = Global(properties, "TensorProperties")

    def metadata(self, entries: object, places: object) -> Fields:
        """Returns the object of the whole file."""
        return self._made("Metadata", state_dict_metadata=entries, planner_data=None, storage_data=places)

    def tensor(self, properties: object, size: object, chunks: object) -> Fields:
        """Returns what describes a tensor."""
        return self._made("TensorStorageMetadata", properties=properties, size=size, chunks=chunks)

    def bytes(self) -> Fields:
        """Returns what describes bytes."""
        return self._made("BytesStorageMetadata")

    def chunk(self, offset: object, shape: object) -> Fields:
        """Returns a part of a tensor."""
        return self._made("ChunkStorageMetadata", offsets=offset, sizes=shape)

    def index(self, name: object, offset: object = None, place: object = None) -> Fields:
        """Returns what names a part."""
        return self._made("MetadataIndex", fqn=name, offset=offset, index=place)

    def info(self, file: object, offset: object, length: object) -> Fields:
        """Returns where a part lies."""
        target = Global(f"{self._package}.filesystem", "_StorageInfo")
        return Fields(target, relative_path=file, offset=offset, length=length)

    def _made(self, name: str, **fields: object) -> Fields:
        return Fields(Global(f"{self._package}.metadata", name), **fields)


def size(*extents: int) -> Call:
    """Returns a torch.Size."""
    return Call(Global("torch", "Size"), extents)


_FORMATS = {
    "torch.distributed.checkpoint.metadata": "_MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata": "MEM_FORMAT_ENCODING",
}


class DcpWriter:
    """Writes a folder as torch.distributed.checkpoint does. What is written may be changed before `write`."""

    def __init__(self, classes: Classes) -> None:
        """Takes the classes of a version."""
        self.classes = classes
        self.files: dict[str, bytes] = {}
        self.entries: dict[str, typing.Any] = {}
        self.places: dict[typing.Any, typing.Any] = {}

    def add_tensor(
        self, name: str, whole: Array, cuts: typing.Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    ) -> None:
        """Adds a tensor in boxes of an offset and a shape each; the boxes go to two files in turns."""
        c = self.classes
        encoding = Call(Global(c.properties.module, _FORMATS[c.properties.module]), 0)
        layout = Call(Global("torch.serialization", "_get_layout"), "torch.strided")
        kind = Global("torch", "bfloat16" if whole.dtype == np.uint16 else whole.dtype.name)
        # NEWOBJ and a tuple are what pickle makes of __getstate__; a call and a state are as good.
        properties = Call(c.properties, state=(kind, layout, False, encoding, False))
        chunks = [c.chunk(size(*offset), size(*shape)) for offset, shape in cuts]
        self.entries[name] = c.tensor(properties, size(*whole.shape), chunks)
        for place, (offset, shape) in enumerate(cuts):
            box = tuple(slice(first, first + extent) for first, extent in zip(offset, shape, strict=True))
            data = torch_saved(tensor(np.ascontiguousarray(whole[box]).reshape(shape)))
            self.add_item(c.index(name, size(*offset), place), f"__{place % 2}_0.distcp", data)

    def add_object(self, name: str, value: object) -> None:
        """Adds an object that is no tensor."""
        self.entries[name] = self.classes.bytes()
        self.add_item(self.classes.index(name), "__0_0.distcp", torch_saved(value))

    def add_item(self, index: object, file: str, data: bytes) -> None:
        """Adds bytes to a file, and where they are."""
        before = self.files.get(file, b"")
        self.files[file] = before + data
        self.places[index] = self.classes.info(file, len(before), len(data))

    def write(self, folder: pathlib.Path, protocol: int = 4) -> pathlib.Path:
        """Writes the folder, and returns it."""
        folder.mkdir()
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        metadata = self.classes.metadata(self.entries, self.places)
        (folder / ".metadata").write_bytes(pickled(metadata, protocol)[0])
        return folder
