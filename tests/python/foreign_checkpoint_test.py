"""Checkpoints that others wrote are read as they were written. The files are made here, with nothing but Python."""

# Imports come after what skips the tests, and values of files are values.
# ruff: noqa: E402, FBT003

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import pickle
import subprocess
import sys
import types
import typing

import pytest

np = pytest.importorskip("numpy", reason="NumPy is not installed: apt-get install python3-numpy")

from foreign_files import (
    Call,
    Classes,
    DcpWriter,
    Global,
    Tensor,
    archive,
    describe,
    safetensors,
    tensor,
    torch_saved,
)
from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.foreign import (
    ForeignCheckpoint,
    ForeignFormatError,
    Limits,
    byte_source,
    lazy_tensor,
    open_foreign,
)

WEIGHTS = np.arange(70, dtype=np.float32).reshape(10, 7)
BITS = np.arange(12, dtype=np.uint16).reshape(3, 4)


def opened(folder: pathlib.Path, data: bytes, name: str = "file") -> ForeignCheckpoint:
    path = folder / name
    path.write_bytes(data)
    return open_foreign(path)


def refused(folder: pathlib.Path, data: bytes, says: str, name: str = "file") -> None:
    with pytest.raises(ForeignFormatError, match=says):
        opened(folder, data, name)


def test_the_package_needs_neither_numpy_nor_torch_to_be_imported() -> None:
    code = (
        "import sys; sys.modules['numpy'] = sys.modules['torch'] = None\n"
        "import harmonaize, harmonaize.checkpoint, harmonaize.checkpoint.element_type as e\n"
        "assert e.ElementType.BF16.bytes == 2"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_element_types_agree_with_numpy() -> None:
    for kind in ElementType:
        assert kind.numpy_dtype.itemsize == kind.bytes
        assert kind.numpy_dtype.byteorder in "<|=" or sys.byteorder == "big"
        assert ElementType.from_torch(f"torch.{kind.torch_name}") == kind
        if not kind.is_raw:
            assert ElementType.from_numpy(np.dtype(kind.numpy_name)) == kind
    assert ElementType.from_numpy("uint16") == ElementType.U16
    with pytest.raises(ValueError, match="complex128"):
        ElementType.from_numpy(np.dtype("complex128"))
    with pytest.raises(ValueError, match="qint8"):
        ElementType.from_torch("torch.qint8")


# Files of torch.save.


def test_a_torch_file_has_its_tensors_and_objects_by_dotted_names(tmp_path: pathlib.Path) -> None:
    state = {
        "model": {"a.b": tensor(WEIGHTS), "bits": tensor(BITS)},
        "optimizer": {"state": {0: {"exp_avg": tensor(WEIGHTS * 2)}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
        "step": 7,
        "empty": {},
        "list": [1, "x", None],
        "pair": (tensor(WEIGHTS[0]), 5),
    }
    one = opened(tmp_path, torch_saved(state))
    assert (one.kind, one.step) == ("torch", 7)
    assert {name: (found.type.value, found.shape) for name, found in one.tensors.items()} == {
        "model.a.b": ("F32", (10, 7)),
        "model.bits": ("BF16", (3, 4)),
        "optimizer.state.0.exp_avg": ("F32", (10, 7)),
        "pair.0": ("F32", (7,)),
    }
    assert dict(one.objects) == {
        "optimizer.param_groups.0.lr": 0.1,
        "optimizer.param_groups.0.params": [0],
        "step": 7,
        "empty": {},
        "list": [1, "x", None],
        "pair.1": 5,
    }
    assert np.array_equal(one.read("model.a.b"), WEIGHTS)
    assert np.array_equal(one.read("model.bits"), BITS)
    assert one.read("model.bits").dtype == np.uint16


@pytest.mark.parametrize(
    ("offset", "shape"),
    [((0, 0), (10, 7)), ((3, 2), (4, 5)), ((9, 6), (1, 1)), ((0, 0), (0, 7)), ((2, 0), None), (None, (5, 5))],
)
@pytest.mark.parametrize("turned", [False, True])
def test_any_box_of_a_tensor_is_read(
    tmp_path: pathlib.Path, offset: tuple[int, ...] | None, shape: tuple[int, ...] | None, *, turned: bool
) -> None:
    storage = np.arange(200, dtype=np.float32)
    one = Tensor(storage, (10, 7), (1, 11) if turned else (14, 2), offset=5)
    whole = np.lib.stride_tricks.as_strided(storage[5:], one.shape, [4 * stride for stride in one.strides])
    begin = offset or (0, 0)
    end = [first + extent for first, extent in zip(begin, shape, strict=True)] if shape else [10, 7]
    read = opened(tmp_path, torch_saved(one)).read("", offset, shape)
    assert np.array_equal(read, whole[begin[0] : end[0], begin[1] : end[1]])
    assert read.flags.writeable


def counted_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list to which the size of each later read is added."""
    read: list[int] = []
    original = byte_source.ByteSource.read_into

    def counted(self: byte_source.ByteSource, begin: int, into: memoryview) -> None:
        read.append(len(into))
        original(self, begin, into)

    monkeypatch.setattr(byte_source.ByteSource, "read_into", counted)
    return read


def test_large_gaps_are_not_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_tensor, "_SPAN_BYTES", 64)
    storage = np.arange(4096, dtype=np.int64)
    one = opened(tmp_path, torch_saved(Tensor(storage, (4, 8, 3), (1024, 3, 1))))
    read = counted_bytes(monkeypatch)
    assert np.array_equal(
        one.read("", (1, 2, 0), (2, 3, 2)), storage.reshape(4, 1024)[1:3, 6:15].reshape(2, 3, 3)[:, :, :2]
    )
    assert sum(read) <= 2 * 3 * 3 * 8
    read.clear()
    assert np.array_equal(one.read(""), storage.reshape(4, 1024)[:, :24].reshape(4, 8, 3))
    assert sum(read) == 4 * 8 * 3 * 8


def test_a_box_outside_of_the_tensor_and_an_unknown_name_are_wrong_arguments(tmp_path: pathlib.Path) -> None:
    one = opened(tmp_path, torch_saved({"w": tensor(WEIGHTS)}))
    for offset, shape in (((0, 0), (11, 7)), ((-1, 0), (2, 2)), ((0,), (1,)), ((10, 7), (1, 0)), ((0, 0), (1, -1))):
        with pytest.raises(ValueError, match=r"box|offset"):
            one.read("w", offset, shape)
    with pytest.raises(ValueError, match="'v'"):
        one.read("v")


def test_tensors_share_a_storage(tmp_path: pathlib.Path) -> None:
    storage = np.arange(10, dtype=np.int32)
    one = opened(
        tmp_path, torch_saved({"a": Tensor(storage, (4,), (1,)), "b": Tensor(storage, (3, 2), (2, 1), offset=4)})
    )
    assert np.array_equal(one.read("a"), storage[:4])
    assert np.array_equal(one.read("b"), storage[4:].reshape(3, 2))


def test_a_mask_may_repeat_its_elements(tmp_path: pathlib.Path) -> None:
    one = opened(tmp_path, torch_saved({"mask": Tensor(np.array([3.0], np.float32), (5, 6), (0, 0))}))
    assert np.array_equal(one.read("mask"), np.full((5, 6), 3, np.float32))


def test_what_state_files_hold_is_read(tmp_path: pathlib.Path) -> None:
    state = {
        "namespace": argparse.Namespace(lr=0.5, layers=[1, 2]),
        "simple": types.SimpleNamespace(a=1),
        "ordered": collections.OrderedDict(x=1),
        "counter": collections.Counter("aab"),
        "default": collections.defaultdict(list, {"k": [1]}),
        "set": {1, 2},
        "frozen": frozenset("ab"),
        "bytes": b"\x00\xff",
        "array": bytearray(b"xy"),
        "complex": 1 + 2j,
        "path": pathlib.PurePosixPath("a/b"),
        "numbers": [0, 255, 65536, -1, 2**40, -(2**40), 2**127, 1.5, True, None],
        "size": Call(Global("torch", "Size"), (2, 3)),
        "device": Call(Global("torch", "device"), "cuda", 1),
        "dtype": Global("torch", "bfloat16"),
        "long": "x" * 70000,
    }
    one = opened(tmp_path, torch_saved({name: [value] for name, value in state.items()}))
    found = {name: typing.cast("list[typing.Any]", value)[0] for name, value in one.objects.items() if "." not in name}
    assert found["namespace"].fields == {"lr": 0.5, "layers": [1, 2]}
    assert found["simple"].fields == {"a": 1}
    for name in ("set", "frozen", "bytes", "array", "complex", "path", "long"):
        assert found[name] == state[name]
    assert one.objects["ordered.0.x"] == 1
    assert one.objects["counter.0.a"] == 2
    assert one.objects["default.0.k"] == [1]
    assert found["numbers"] == state["numbers"]
    assert (found["size"], found["device"], found["dtype"].name) == ((2, 3), "cuda:1", "bfloat16")


@pytest.mark.parametrize("protocol", range(2, 6))
def test_numpy_s_arrays_and_numbers_are_read(tmp_path: pathlib.Path, protocol: int) -> None:
    values = [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(WEIGHTS),
        np.float32(1.5),
        np.array(True),
        np.zeros((0, 3)),
        np.complex128(1j),
    ]
    data = pickle.dumps(values, protocol)
    one = opened(tmp_path, archive({"data.pkl": data}))
    found = typing.cast("list[typing.Any]", one.objects[""])
    for read, value in zip(found, values, strict=True):
        assert np.array_equal(read, value)
        assert (read.dtype.name, read.shape) == (value.dtype.name, value.shape)


@pytest.mark.parametrize(
    "value",
    [np.array(["text"]), np.array([object()], object), np.zeros(2, [("a", "f4")]), np.array([1], "M8[s]")],
)
def test_arrays_of_other_than_numbers_are_refused(tmp_path: pathlib.Path, value: typing.Any) -> None:
    refused(tmp_path, archive({"data.pkl": pickle.dumps(value, 4)}), "not on the list|plain numbers")


def test_parameters_and_tensors_of_later_versions_are_read(tmp_path: pathlib.Path) -> None:
    hooks = Call(Global("collections", "OrderedDict"))
    made = Global("torch._utils", "_rebuild_tensor_v2")
    parts = (WEIGHTS.reshape(-1), 0, (10, 7), (7, 1), False, hooks)
    bits = np.arange(8, dtype=np.uint8)
    state = {
        "parameter": Call(Global("torch._utils", "_rebuild_parameter"), tensor(WEIGHTS), True, hooks),
        "attributes": Call(
            Global("torch._utils", "_rebuild_parameter_with_state"), tensor(WEIGHTS), True, hooks, {"x": 1}
        ),
        "typed": Call(
            Global("torch._tensor", "_rebuild_from_type_v2"), made, Global("torch", "Tensor"), parts, {"note": "x"}
        ),
        "flags": Call(made, *parts, {"conj": False}),
        "old": Call(Global("torch._utils", "_rebuild_tensor"), *parts[:4]),
    }
    one = opened(tmp_path, torch_saved(state))
    assert sorted(one.tensors) == sorted(state)
    for name in state:
        assert np.array_equal(one.read(name), WEIGHTS)
    third = Call(
        Global("torch._utils", "_rebuild_tensor_v3"), bits, 2, (3,), (1,), False, hooks, Global("torch", "float8_e5m2")
    )
    one = opened(tmp_path, torch_saved({"eighth": third}))
    assert (one.tensors["eighth"].type, one.read("eighth").tolist()) == (ElementType.F8_E5M2, [2, 3, 4])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no file of torch.save"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "before 1.6"),
        (pickle.dumps({}), "bare pickle"),
        (b"hello", "no file of torch.save"),
        (archive({"version": b"3"}), "no data.pkl"),
        (archive({"data.pkl": pickle.dumps({}, 2), "constants.pkl": b""}), "TorchScript"),
        (archive({"data.pkl": pickle.dumps({}, 2), "byteorder": b"big"}), "big-endian"),
        (archive({"data.pkl": pickle.dumps({}, 0)}), "protocol 2 or later"),
        (archive({"data.pkl": pickle.dumps({}, 2)[:-1]}), "cut short"),
    ],
)
def test_other_files_are_refused_with_the_way_out(tmp_path: pathlib.Path, data: bytes, says: str) -> None:
    refused(tmp_path, data, says)


def test_two_values_with_one_name_are_refused(tmp_path: pathlib.Path) -> None:
    refused(tmp_path, torch_saved({"a": {"b": 1}, "a.b": 2}), "two values with the name 'a.b'")


def test_limits_are_the_caller_s(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(torch_saved({"list": list(range(1000))}))
    assert open_foreign(path).objects["list"] == list(range(1000))
    with pytest.raises(ForeignFormatError, match=r"Limits\.work"):
        open_foreign(path, Limits(work=500))
    with pytest.raises(ForeignFormatError, match="100 are read at most"):
        open_foreign(path, Limits(bytes=100))


# Files of safetensors.


def test_a_file_of_safetensors_is_read(tmp_path: pathlib.Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "w": describe(WEIGHTS, 24),
        "b": describe(BITS, 0, "BF16"),
        "none": {"dtype": "I64", "shape": [0, 3], "data_offsets": [24, 24]},
        "scalar": {"dtype": "F64", "shape": [], "data_offsets": [304, 312]},
    }
    text = json.dumps(header).encode() + b"   "
    one = opened(
        tmp_path, safetensors(text, BITS.tobytes() + WEIGHTS.tobytes() + np.float64(2.5).tobytes()), "x.safetensors"
    )
    assert (one.kind, one.step, dict(one.objects)) == ("safetensors", None, {"format": "pt"})
    assert np.array_equal(one.read("w", (1, 1), (3, 3)), WEIGHTS[1:4, 1:4])
    assert np.array_equal(one.read("b"), BITS)
    assert (one.read("none").shape, one.read("scalar")[()]) == ((0, 3), 2.5)
    assert open_foreign(tmp_path).read("scalar")[()] == 2.5


ENTRY = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("header", "data", "says"),
    [
        ({"a": ENTRY}, b"123", "outside"),
        ({"a": ENTRY}, b"12345", "belong to no tensor"),
        ({"a": {**ENTRY, "data_offsets": [1, 5]}}, b"12345", "hole"),
        ({"a": ENTRY, "b": ENTRY}, b"1234", "overlap"),
        ({"a": ENTRY, "b": {**ENTRY, "data_offsets": [6, 10]}}, b"1234567890", "hole"),
        ({"a": {**ENTRY, "shape": [5]}}, b"1234", "needs 5"),
        ({"a": {**ENTRY, "shape": [-4]}}, b"1234", "extent"),
        ({"a": {**ENTRY, "shape": [True, 4]}}, b"1234", "extent"),
        ({"a": {**ENTRY, "shape": [4.0]}}, b"1234", "extent"),
        ({"a": {**ENTRY, "shape": [1 << 62, 1 << 62, 0]}}, b"1234", "extent"),
        ({"a": {**ENTRY, "shape": [1] * 40}}, b"1234", "dimensions"),
        ({"a": {**ENTRY, "dtype": "F4"}}, b"1234", "'F4'"),
        ({"a": {**ENTRY, "dtype": ["U8"]}}, b"1234", "list"),
        ({"a": {**ENTRY, "data_offsets": [0, 4, 8]}}, b"1234", "place that is none"),
        ({"a": {**ENTRY, "data_offsets": [4, 0]}}, b"1234", "outside"),
        ({"a": {**ENTRY, "data_offsets": [0, 1 << 70]}}, b"1234", "outside"),
        ({"a": {**ENTRY, "more": 1}}, b"1234", "dtype, shape and data_offsets"),
        ({"a": None}, b"", "dtype, shape and data_offsets"),
        ({"__metadata__": {"a": 1}}, b"", "metadata"),
        ({"__metadata__": []}, b"", "metadata"),
        (b'{"a":{},"a":{}}', b"", "'a' twice"),
        (b'{"__metadata__":{"x":"1","x":"2"}}', b"", "'x' twice"),
        (b" {}", b"", "no JSON object"),
        (b"{", b"", "no JSON"),
        (b"{} x", b"", "no JSON"),
        (b'{"\xff":1}', b"", "no JSON"),
        (b"{" + b'"a":{' * 100_000, b"", "no JSON"),
        (b'{"a":' + b"9" * 10_000 + b"}", b"", "no JSON"),
        (b"", b"", "no JSON object"),
    ],
)
def test_each_rule_of_safetensors_is_held(tmp_path: pathlib.Path, header: object, data: bytes, says: str) -> None:
    refused(tmp_path, safetensors(header, data), says, "x.safetensors")


@pytest.mark.parametrize("length", [9, 100_000_001, 1 << 63, (1 << 64) - 1])
def test_a_header_that_is_longer_than_the_file_or_the_format_allows_is_refused(
    tmp_path: pathlib.Path, length: int
) -> None:
    refused(tmp_path, length.to_bytes(8, "little") + b"{}", "cut short|the format allows", "x.safetensors")


def test_a_model_in_several_files_is_read(tmp_path: pathlib.Path) -> None:
    for name, array in (("a", WEIGHTS), ("b", WEIGHTS + 1)):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors({name: describe(array, 0)}, array.tobytes()))
    assert np.array_equal(open_foreign(tmp_path).read("b"), WEIGHTS + 1)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": "a.safetensors"}}))
    assert list(open_foreign(tmp_path).tensors) == ["a"]
    for places, says in (
        ({"b": "a.safetensors"}, "which it does not"),
        ({"a": "c.safetensors"}, "no file"),
        ({"a": "../a.safetensors"}, "no name of a file"),
        ({"a": "/etc/passwd"}, "no name of a file"),
        ({"a": 1}, "weight_map"),
        ([], "weight_map"),
    ):
        index.write_text(json.dumps({"weight_map": places}))
        with pytest.raises(ForeignFormatError, match=says):
            open_foreign(tmp_path)
    index.unlink()
    (tmp_path / "c.safetensors").write_bytes(safetensors({"a": describe(WEIGHTS, 0)}, WEIGHTS.tobytes()))
    with pytest.raises(ForeignFormatError, match="which another file holds too"):
        open_foreign(tmp_path)


def sharded(name: str, array: typing.Any, offset: typing.Any) -> bytes:
    places = json.dumps({name: {"saved_offsets": offset}})
    return safetensors({"__metadata__": {"DCP_SHARDING_INFO": places}, name: describe(array, 0)}, array.tobytes())


def test_shards_of_pytorch_s_writer_are_put_together(tmp_path: pathlib.Path) -> None:
    for place, cut in enumerate((slice(0, 4), slice(4, 10))):
        array = np.ascontiguousarray(WEIGHTS[cut])
        (tmp_path / f"shard-{place}.safetensors").write_bytes(sharded("w", array, [cut.start, 0]))
    one = open_foreign(tmp_path)
    assert one.tensors["w"].shape == (10, 7)
    assert np.array_equal(one.read("w", (2, 1), (5, 4)), WEIGHTS[2:7, 1:5])
    (tmp_path / "shard-0.safetensors").unlink()
    with pytest.raises(ForeignFormatError, match="14 elements are missing"):
        open_foreign(tmp_path).read("w", (2, 0), (3, 7))
    for offset, says in (([0], "does not say where"), ([3, 0], "overlap"), (["x", 0], "extent"), ([-1, 0], "extent")):
        (tmp_path / "shard-0.safetensors").write_bytes(sharded("w", WEIGHTS[:4], offset))
        with pytest.raises(ForeignFormatError, match=says):
            open_foreign(tmp_path)


# Folders of torch.distributed.checkpoint.

VERSIONS = [
    ("torch.distributed._shard.checkpoint", "torch.distributed._shard.sharded_tensor.metadata"),
    ("torch.distributed.checkpoint", "torch.distributed._shard.sharded_tensor.metadata"),
    ("torch.distributed.checkpoint", "torch.distributed.checkpoint.metadata"),
]
ROWS = [((0, 0), (4, 7)), ((4, 0), (4, 7)), ((8, 0), (2, 7)), ((10, 0), (0, 7))]
TILES = [((0, 0), (5, 3)), ((0, 3), (5, 4)), ((5, 0), (5, 3)), ((5, 3), (5, 4))]


@pytest.fixture
def writer() -> DcpWriter:
    return DcpWriter(Classes(*VERSIONS[-1]))


@pytest.mark.parametrize(("package", "properties"), VERSIONS)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_folders_of_all_versions_are_read(tmp_path: pathlib.Path, package: str, properties: str, protocol: int) -> None:
    writer = DcpWriter(Classes(package, properties))
    writer.add_tensor("model.rows", WEIGHTS, ROWS)
    writer.add_tensor("model.tiles", WEIGHTS * 2, TILES)
    writer.add_tensor("bits", BITS, [((0, 0), (3, 4))])
    writer.add_tensor("scalar", np.array(4.0, np.float32), [((), ())])
    writer.add_object("step", 12)
    writer.add_object("args", {"lr": [0.1]})
    folder = writer.write(tmp_path / "folder", protocol)
    one = open_foreign(folder)
    assert (one.kind, one.step) == ("dcp", 12)
    assert dict(one.objects) == {"step": 12, "args": {"lr": [0.1]}}
    assert np.array_equal(one.read("model.rows"), WEIGHTS)
    for name, factor in (("model.rows", 1), ("model.tiles", 2)):
        assert np.array_equal(one.read(name, (3, 2), (6, 4)), WEIGHTS[3:9, 2:6] * factor)
        assert one.read(name, (4, 4), (0, 3)).shape == (0, 3)
    assert np.array_equal(one.read("bits"), BITS)
    assert one.read("scalar")[()] == 4
    assert open_foreign(folder / ".metadata").step == 12


def test_a_folder_without_metadata_is_not_whole(tmp_path: pathlib.Path, writer: DcpWriter) -> None:
    writer.add_tensor("w", WEIGHTS, ROWS)
    folder = writer.write(tmp_path / "folder")
    (folder / ".metadata").rename(folder / ".metadata.tmp")
    with pytest.raises(ForeignFormatError, match="saving it has not ended"):
        open_foreign(folder)


def test_only_the_files_of_a_box_are_read(tmp_path: pathlib.Path, writer: DcpWriter) -> None:
    writer.add_tensor("w", WEIGHTS, [((0, 0), (5, 7)), ((5, 0), (5, 7))])
    folder = writer.write(tmp_path / "folder")
    (folder / "__1_0.distcp").unlink()
    one = open_foreign(folder)
    assert np.array_equal(one.read("w", (0, 0), (5, 7)), WEIGHTS[:5])
    with pytest.raises(ForeignFormatError, match="no file"):
        one.read("w", (4, 0), (2, 7))


def test_a_box_costs_its_own_bytes(tmp_path: pathlib.Path, writer: DcpWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    writer.add_tensor("w", whole, [((0, 0), (1000, 1024)), ((1000, 0), (24, 1024))])
    one = open_foreign(writer.write(tmp_path / "folder"))
    read = counted_bytes(monkeypatch)
    assert np.array_equal(one.read("w", (998, 0), (4, 1024)), whole[998:1002])
    assert 4 * 4096 <= sum(read) < 5 * 4096


def test_tensors_in_a_block_of_safetensors_are_read(tmp_path: pathlib.Path, writer: DcpWriter) -> None:
    writer.add_object("step", 5)
    block = safetensors({"a": describe(WEIGHTS, 0), "b": describe(WEIGHTS[:2], WEIGHTS.nbytes)}, WEIGHTS.tobytes() * 2)
    block = block[: len(block) - WEIGHTS[2:].nbytes]
    begin = len(writer.files["__0_0.distcp"])
    for name, array in (("a", WEIGHTS), ("b", WEIGHTS[:2])):
        writer.add_tensor(name, array, [((0, 0), array.shape)])
        writer.places[list(writer.places)[-1]].fields.update(offset=begin, length=array.nbytes)
    writer.files["__0_0.distcp"] = writer.files["__0_0.distcp"][:begin] + block
    folder = writer.write(tmp_path / "folder")
    one = open_foreign(folder)
    assert one.step == 5
    assert np.array_equal(one.read("a"), WEIGHTS)
    assert np.array_equal(one.read("b", (1, 2), (1, 3)), WEIGHTS[1:2, 2:5])
    # The same place without such a block would be one tensor under two names.
    path = folder / "__0_0.distcp"
    path.write_bytes(path.read_bytes()[:begin] + torch_saved(tensor(WEIGHTS)))
    for name in ("a", "b"):
        with pytest.raises(ForeignFormatError, match="twice"):
            open_foreign(folder).read(name)


def changed_index(writer: DcpWriter, **fields: object) -> None:
    for name, value in fields.items():
        next(iter(writer.places)).fields[name] = value


def changed_info(writer: DcpWriter, **fields: object) -> None:
    for name, value in fields.items():
        next(iter(writer.places.values())).fields[name] = value


def changed_entry(writer: DcpWriter, **fields: object) -> None:
    for name, value in fields.items():
        writer.entries["w"].fields[name] = value


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda w: changed_info(w, relative_path="../folder/__0_0.distcp"), "no name of a file"),
        (lambda w: changed_info(w, relative_path="/etc/passwd"), "no name of a file"),
        (lambda w: changed_info(w, relative_path="a\0b"), "no name of a file"),
        (lambda w: changed_info(w, relative_path="\ud800"), "leads nowhere|no file"),
        (lambda w: changed_info(w, relative_path="x" * 5000), "cannot be opened|leads nowhere"),
        (lambda w: changed_info(w, relative_path=b"x"), "no file, offset and length"),
        (lambda w: changed_info(w, relative_path="."), "no name of a file"),
        (lambda w: changed_info(w, relative_path="link"), "link that leads out"),
        (lambda w: changed_info(w, relative_path="pipe"), "no plain file"),
        (lambda w: changed_info(w, offset=-1), "no file, offset and length"),
        (lambda w: changed_info(w, length=1 << 62), "cut short|twice"),
        (lambda w: changed_info(w, length=True), "no file, offset and length"),
        (lambda w: changed_info(w, length=8), "zip file|cut short"),
        (lambda w: changed_info(w, transform_descriptors=["stream.zstd/1"]), r"stream\.zstd/1"),
        (lambda w: changed_info(w, transform_descriptors=5), "no list"),
        (lambda w: changed_index(w, fqn="other"), "does not say where"),
        (lambda w: changed_index(w, fqn=5), "no name"),
        (lambda w: changed_index(w, offset=[0, 0]), "no shape"),
        (lambda w: changed_index(w, offset=(0, 1)), "does not say where"),
        (lambda w: changed_entry(w, size=(10, 6)), "outside of it"),
        (lambda w: changed_entry(w, size=(10, 8)), "elements are missing"),
        (lambda w: changed_entry(w, size=(1 << 50,)), "outside of it"),
        (lambda w: changed_entry(w, size="x"), "no shape"),
        (lambda w: changed_entry(w, chunks=None), "no tensor"),
        (lambda w: changed_entry(w, chunks=[1]), "is none"),
        (lambda w: changed_entry(w, chunks=[w.entries["w"].fields["chunks"][0]] * 2), "overlap"),
        (lambda w: changed_entry(w, chunks=w.entries["w"].fields["chunks"][1:]), "28 elements are missing"),
        (lambda w: changed_entry(w, properties=None), "no tensor"),
        (lambda w: changed_entry(w, properties=w.classes.bytes()), "no type"),
        (lambda w: w.entries.update(w=5), "neither tensor nor bytes"),
        (lambda w: w.entries.update({5: w.classes.bytes()}), "no name"),
        (lambda w: w.places.update({5: 6}), "no name"),
        (lambda w: w.places.clear(), "does not say where"),
        (lambda w: w.places.update({w.classes.index("v"): next(iter(w.places.values()))}), "twice"),
    ],
)
def test_metadata_that_is_not_sound_is_refused(
    tmp_path: pathlib.Path, writer: DcpWriter, change: typing.Callable[[DcpWriter], None], says: str
) -> None:
    writer.add_tensor("w", WEIGHTS, ROWS)
    change(writer)
    folder = writer.write(tmp_path / "folder")
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    with pytest.raises(ForeignFormatError, match=says):
        open_foreign(folder).read("w")


def test_a_part_that_is_not_what_the_metadata_says_is_refused(tmp_path: pathlib.Path, writer: DcpWriter) -> None:
    writer.add_tensor("w", WEIGHTS, [((0, 0), (10, 7))])
    writer.files["__0_0.distcp"] = torch_saved(tensor(WEIGHTS[:9]))
    changed_info(writer, length=len(writer.files["__0_0.distcp"]))
    one = open_foreign(writer.write(tmp_path / "folder"))
    with pytest.raises(ForeignFormatError, match=r"\(9, 7\)"):
        one.read("w")


def test_a_part_that_repeats_its_bytes_is_refused(tmp_path: pathlib.Path, writer: DcpWriter) -> None:
    writer.add_tensor("w", np.zeros((10, 7), np.float32), [((0, 0), (10, 7))])
    writer.files["__0_0.distcp"] = torch_saved(Tensor(np.zeros(1, np.float32), (1000, 700), (0, 0)))
    changed_info(writer, length=len(writer.files["__0_0.distcp"]))
    changed_entry(writer, size=(1000, 700), chunks=[writer.classes.chunk((0, 0), (1000, 700))])
    one = open_foreign(writer.write(tmp_path / "folder"))
    with pytest.raises(ForeignFormatError, match="larger than its bytes"):
        one.read("w")


# Folders of DeepSpeed.


def saved(folder: pathlib.Path, name: str, value: object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(torch_saved(value))


SHAPES = {"a": (3, 5), "b": (7,), "c": (2, 2, 3)}
PARAMETERS = {name: np.random.default_rng(1).random(shape, np.float32) for name, shape in SHAPES.items()}


def model_state(**more: object) -> dict[str, object]:
    shapes = {name: Call(Global("torch", "Size"), shape) for name, shape in SHAPES.items()}
    state = {
        "module": {"buffer": tensor(WEIGHTS), "a": tensor(BITS)},
        "buffer_names": ["buffer", "not persistent"],
        "param_shapes": [shapes],
        "frozen_param_shapes": None,
        "shared_params": {"tied": "b"},
        "global_steps": 9,
        "client": {"epoch": 2},
    }
    return state | more


def optimizer_state(stage: int, ranks: int, weights: typing.Any, filling: int = 0) -> dict[str, object]:
    """Returns what a rank's file holds. DeepSpeed saves the weights without what fills the last partition."""
    moments = {0: {"step": tensor(np.array(4.0, np.float32)), "exp_avg": tensor(weights * 2)}}
    weights = weights[: weights.size - filling]
    base = {"state": moments, "param_groups": [{"lr": 0.1}]}
    state: dict[str, object] = {"zero_stage": stage, "partition_count": [ranks] if stage < 3 else ranks}
    if stage < 3:
        state |= {"single_partition_of_fp32_groups": [tensor(weights)], "base_optimizer_state": base}
    else:
        state |= {"fp32_flat_groups": [tensor(weights)], "optimizer_state_dict": base}
    return {"optimizer_state_dict": state}


def partitions(stage: int, ranks: int) -> list[typing.Any]:
    flats = [array.reshape(-1) for array in PARAMETERS.values()]
    if stage < 3:
        whole = np.concatenate(flats)
        whole = np.concatenate([whole, np.zeros(-whole.size % (2 * ranks), np.float32)])
        return list(whole.reshape(ranks, -1))
    padded = [np.concatenate([flat, np.zeros(-flat.size % ranks, np.float32)]).reshape(ranks, -1) for flat in flats]
    return [np.ascontiguousarray(np.concatenate([one[rank] for one in padded])) for rank in range(ranks)]


def write_zero(root: pathlib.Path, stage: int, ranks: int, **more: object) -> pathlib.Path:
    folder = root / "global_step9"
    filling = -sum(array.size for array in PARAMETERS.values()) % (2 * ranks) if stage < 3 else 0
    for rank, weights in enumerate(partitions(stage, ranks)):
        state = optimizer_state(
            stage, ranks, weights, max(0, min(filling - (ranks - rank - 1) * weights.size, weights.size))
        )
        saved(folder, f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", state)
        if stage == 3:
            saved(folder, f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt", model_state(**more))
    if stage < 3:
        saved(folder, "mp_rank_00_model_states.pt", model_state(**more))
    (root / "latest").write_text("global_step9\n")
    return folder


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_partitions_of_zero_are_merged(tmp_path: pathlib.Path, stage: int, ranks: int) -> None:
    folder = write_zero(tmp_path, stage, ranks)
    one = open_foreign(tmp_path)
    assert (one.kind, one.step) == ("deepspeed-zero", 9)
    assert one.objects["client.epoch"] == 2
    assert one.objects["optimizer.param_groups.0.lr"] == 0.1
    for name, array in PARAMETERS.items():
        assert np.array_equal(one.read(f"model.{name}"), array)
        assert np.array_equal(one.read(f"optimizer.state.{name}.exp_avg"), array * 2)
        assert one.read(f"optimizer.state.{name}.step")[()] == 4
    assert np.array_equal(one.read("model.c", (1, 0, 1), (1, 2, 2)), PARAMETERS["c"][1:, :, 1:])
    assert np.array_equal(one.read("model.tied"), PARAMETERS["b"])
    assert np.array_equal(one.read("model.buffer"), WEIGHTS)
    assert open_foreign(folder).tensors.keys() == one.tensors.keys()


@pytest.mark.parametrize("stage", [2, 3])
def test_frozen_parameters_are_read(tmp_path: pathlib.Path, stage: int) -> None:
    folder = write_zero(tmp_path, stage, 2)
    frozen = np.arange(5, dtype=np.float32)
    halves = [frozen, frozen] if stage < 3 else [frozen[:3], np.append(frozen[3:], 0).astype(np.float32)]
    for path, half in zip(sorted(folder.glob("*model_states.pt")), halves, strict=False):
        more = {"frozen_param_shapes": {"frozen": (5,)}, "frozen_param_fragments": {"frozen": tensor(half)}}
        saved(folder, path.name, model_state(**more))
    assert np.array_equal(open_foreign(folder).read("model.frozen"), frozen)


def test_aligned_parameters_have_gaps(tmp_path: pathlib.Path) -> None:
    folder = write_zero(tmp_path, 2, 1)
    weights = np.concatenate([np.append(array.reshape(-1), np.float32(-1)) for array in PARAMETERS.values()])
    state = optimizer_state(2, 1, weights)
    typing.cast("dict[str, object]", state["optimizer_state_dict"])["param_alignment_paddings"] = [[1, 1, 1]]
    saved(folder, "zero_pp_rank_0_mp_rank_00_optim_states.pt", state)
    for name, array in PARAMETERS.items():
        assert np.array_equal(open_foreign(folder).read(f"model.{name}"), array)


def test_a_stage_that_is_not_named_is_the_first(tmp_path: pathlib.Path) -> None:
    folder = write_zero(tmp_path, 1, 1)
    state = typing.cast("dict[str, dict[str, object]]", optimizer_state(1, 1, partitions(1, 1)[0]))
    del state["optimizer_state_dict"]["zero_stage"]
    saved(folder, "zero_pp_rank_0_mp_rank_00_optim_states.pt", state)
    assert np.array_equal(open_foreign(folder).read("model.b"), PARAMETERS["b"])


def test_states_of_the_optimizer_are_whole_or_refused(tmp_path: pathlib.Path) -> None:
    folder = write_zero(tmp_path, 2, 1)
    (weights,) = partitions(2, 1)
    for more, says in (
        ({"step": 4, "rate": 0.5}, None),
        ({"odd": tensor(weights[:5])}, "'odd' of the optimizer"),
        ({"odd": tensor(np.append(weights, weights[:2]))}, "'odd' of the optimizer"),
        ({"odd": tensor(weights.reshape(2, -1))}, "no flat tensor"),
    ):
        state = typing.cast("typing.Any", optimizer_state(2, 1, weights))
        state["optimizer_state_dict"]["base_optimizer_state"]["state"][0] |= more
        saved(folder, "zero_pp_rank_0_mp_rank_00_optim_states.pt", state)
        if says is None:
            one = open_foreign(folder)
            assert (one.objects["optimizer.state.a.step"], one.objects["optimizer.state.c.rate"]) == (4, 0.5)
        else:
            with pytest.raises(ForeignFormatError, match=says):
                open_foreign(folder)


def test_what_is_missing_is_named(tmp_path: pathlib.Path) -> None:
    folder = write_zero(tmp_path, 2, 3)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    last = "zero_pp_rank_2_mp_rank_00_optim_states.pt"
    first = "zero_pp_rank_0_mp_rank_00_optim_states.pt"
    short = torch_saved(optimizer_state(2, 3, np.zeros(3, np.float32)))
    for change, says in (
        ({last: None}, "written by 3 ranks, and has the optimizer's files of 2"),
        ({first: None}, r"lacks a rank's file \*_optim_states.pt"),
        ({"mp_rank_00_model_states.pt": None}, r"lacks files \*_model_states.pt"),
        ({"zero_pp_rank_0_mp_rank_01_optim_states.pt": kept[first]}, "ds_to_universal"),
        ({"mp_rank_01_model_states.pt": b""}, "ds_to_universal"),
        ({"layer_0_expert_1_mp_rank_00_model_states.pt": b""}, "experts"),
        ({"bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt": b""}, "two files for one rank"),
        ({last: short}, "too short"),
        ({last: torch_saved({"optimizer_state_dict": {}})}, "no state of ZeRO's optimizer"),
        ({last: torch_saved([])}, "holds no dictionary"),
        ({first: torch_saved({"optimizer_state_dict": {"zero_stage": 4}})}, "stage of ZeRO"),
        ({first: torch_saved({"optimizer_state_dict": {"zero_stage": 2}})}, "how many ranks"),
        ({"mp_rank_00_model_states.pt": torch_saved({})}, "param_shapes"),
        ({"mp_rank_00_model_states.pt": torch_saved(model_state(param_shapes=[{"a": "x"}]))}, "no shape"),
        ({"mp_rank_00_model_states.pt": torch_saved(model_state(param_shapes=[{"a": (99,)}]))}, "too short"),
        ({"mp_rank_00_model_states.pt": torch_saved(model_state(param_shapes=[]))}, "number of groups"),
    ):
        for name, data in typing.cast("dict[str, bytes | None]", change).items():
            if data is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(data)
        with pytest.raises(ForeignFormatError, match=says):
            open_foreign(folder)
        for path in folder.iterdir():
            path.unlink()
        for name, data in kept.items():
            (folder / name).write_bytes(data)


@pytest.mark.parametrize("label", ["../outside", "/etc", "", "a\0b", "missing", "x" * 5000, "link"])
def test_a_label_does_not_lead_out_of_the_folder(tmp_path: pathlib.Path, label: str) -> None:
    write_zero(tmp_path / "outside", 2, 1)
    root = tmp_path / "root"
    write_zero(root, 2, 1)
    (root / "link").symlink_to(tmp_path / "outside" / "global_step9")
    for name in ("latest", "latest_universal"):
        (root / name).write_text(label)
        with pytest.raises(ForeignFormatError):
            open_foreign(root)


def test_a_universal_folder_is_read(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "step_universal"
    saved(folder, "mp_rank_00_model_states.pt", model_state())
    shape = Call(Global("deepspeed.checkpoint.universal_checkpoint", "SubparamShape"), state={"partition_dim": 0})
    extra: dict[str, dict[str, object]] = {
        "a": {"cat_dim": 1},
        "b": {"vocab_tensor": True, "cat_dim": 0},
        "c": {"sub_param_shape": shape},
    }
    for name, array in PARAMETERS.items():
        for word, factor in (("fp32", 1), ("exp_avg", 2), ("exp_avg_sq", 3)):
            saved(folder, f"zero/{name}/{word}.pt", {"param": tensor(array * np.float32(factor)), **extra[name]})
        saved(folder, f"zero/{name}/step.pt", 9)
    saved(folder, "zero/optimizer_state.pt", {"param_groups": [{"lr": 0.2}], "zero_stage": 2})
    (tmp_path / "latest_universal").write_text("step_universal")
    one = open_foreign(tmp_path)
    assert (one.kind, one.step) == ("deepspeed-universal", 9)
    for name, array in PARAMETERS.items():
        assert np.array_equal(one.read(f"model.{name}"), array)
        assert np.array_equal(one.read(f"optimizer.state.{name}.exp_avg_sq"), array * np.float32(3))
        assert one.objects[f"optimizer.state.{name}.step"] == 9
    assert one.objects["universal.a.cat_dim"] == 1
    assert one.objects["universal.b.vocab_tensor"] is True
    assert typing.cast("typing.Any", one.objects["universal.c.sub_param_shape"]).fields == {"partition_dim": 0}
    assert one.objects["optimizer.param_groups.0.lr"] == 0.2
    assert np.array_equal(one.read("model.buffer"), WEIGHTS)
    (folder / "zero" / "a" / "fp32.pt").unlink()
    with pytest.raises(ForeignFormatError, match=r"'a' lacks its file fp32\.pt"):
        open_foreign(tmp_path)


def test_a_universal_folder_of_zero_3_gets_its_shapes_and_steps(tmp_path: pathlib.Path) -> None:
    saved(tmp_path, "zero_pp_rank_0_mp_rank_00_model_states.pt", model_state())
    for name, array in PARAMETERS.items():
        saved(tmp_path, f"zero/{name}/fp32.pt", tensor(array.reshape(-1)))
        saved(tmp_path, f"zero/{name}/exp_avg.pt", tensor(array.reshape(-1)))
    state = {"state": {0: {"step": tensor(np.array(6.0, np.float32))}}}
    saved(tmp_path, "zero/optimizer_state.pt", {"optimizer_state_dict": state})
    one = open_foreign(tmp_path)
    for name, array in PARAMETERS.items():
        assert np.array_equal(one.read(f"model.{name}"), array)
        assert np.array_equal(one.read(f"optimizer.state.{name}.exp_avg"), array)
        assert one.read(f"optimizer.state.{name}.step")[()] == 6


def test_what_is_no_checkpoint_is_refused(tmp_path: pathlib.Path) -> None:
    for path in (tmp_path, tmp_path / "missing", pathlib.Path("/dev/null"), pathlib.Path("a\0b"), "\ud800"):
        with pytest.raises(ForeignFormatError):
            open_foreign(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ForeignFormatError, match="no plain file"):
        open_foreign(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ForeignFormatError):
        open_foreign(tmp_path / "loop")
