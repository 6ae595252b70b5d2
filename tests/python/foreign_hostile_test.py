"""Checkpoints that an attacker made run nothing, and exhaust nothing."""

# Imports come after what skips the tests, and values of files are values.
# ruff: noqa: E402, FBT003

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import typing
import zipfile

import pytest

np = pytest.importorskip("numpy", reason="NumPy is not installed: apt-get install python3-numpy")

import foreign_mutations
from foreign_files import (
    Call,
    Classes,
    DcpWriter,
    Fields,
    Global,
    Tensor,
    archive,
    describe,
    pickled,
    safetensors,
    tensor,
    torch_saved,
)
from harmonaize.checkpoint.foreign import ForeignFormatError, open_foreign
from harmonaize.checkpoint.foreign.known_classes import KNOWN_CLASSES
from harmonaize.checkpoint.foreign.stand_ins import EnumClass, KnownClass, StandIn
from harmonaize.checkpoint.foreign.unpickler import unpickle

WEIGHTS = np.arange(70, dtype=np.float32).reshape(10, 7)


def load(data: bytes) -> object:
    return unpickle(data, KNOWN_CLASSES, "the pickle")


def refused(data: bytes, says: str) -> None:
    with pytest.raises(ForeignFormatError, match=says):
        load(data)


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def stack_named(module: str, name: str) -> bytes:
    texts = (module.encode(), name.encode())
    return b"".join(b"X" + struct.pack("<I", len(text)) + text for text in texts) + b"\x93"


class Runs:
    """Makes a file when it is unpickled by Python."""

    def __init__(self, path: pathlib.Path) -> None:
        """Takes the file's path."""
        self.path = path

    def __reduce__(self) -> tuple[typing.Any, ...]:
        """Has the unpickler call a shell."""
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_nothing_is_run(tmp_path: pathlib.Path, protocol: int) -> None:
    mark = tmp_path / "mark"
    data = pickle.dumps({"weights": Runs(mark)}, protocol)
    pickle.loads(data)  # noqa: S301
    assert mark.exists()
    mark.unlink()
    for name, file in (("data.pt", archive({"data.pkl": data})), (".metadata", data)):
        (tmp_path / name).write_bytes(file)
        with pytest.raises(ForeignFormatError, match=r"system', which is not on the list"):
            open_foreign(tmp_path / name)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("posix", "system"),
        ("subprocess", "Popen"),
        ("builtins", "eval"),
        ("builtins", "exec"),
        ("builtins", "__import__"),
        ("builtins", "open"),
        ("builtins", "getattr.__class__"),
        ("builtins", "dict.__init__"),
        ("torch", "Size.__class__"),
        ("torch", "load"),
        ("torch._utils", "_rebuild_tensor_v2.__globals__"),
        ("torch.serialization", "os.system"),
        ("collections", "OrderedDict.__reduce__"),
        ("collections", "namedtuple"),
        ("numpy", "load"),
        ("numpy.core.multiarray", "_reconstruct.__self__"),
        ("pathlib", "PosixPath.unlink"),
        ("operator", "attrgetter"),
        ("functools", "partial"),
        ("copyreg", "_reconstructor"),
        ("", ""),
        ("a\x1b[2Jb", "c\u202ed"),
        ("x" * 500, "y"),
        ("\ud800", "z"),
    ],
)
@pytest.mark.parametrize("form", [named, stack_named])
def test_a_class_that_is_not_on_the_list_is_refused_by_name(
    module: str, name: str, form: typing.Callable[[str, str], bytes]
) -> None:
    if module == "\ud800":
        data = b"\x80\x04X\x03\x00\x00\x00\xed\xa0\x80X\x01\x00\x00\x00z\x93)R."
    else:
        data = b"\x80\x04" + form(module, name) + b")R."
    with pytest.raises(ForeignFormatError, match="not on the list of classes") as error:
        load(data)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1000


def test_getattr_is_for_members_of_enumerations_alone() -> None:
    enumeration = ("torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING")
    for target in (("collections", "OrderedDict"), ("torch", "Size"), ("torch", "float32")):
        refused(
            b"\x80\x04" + named("builtins", "getattr") + named(*target) + b"X\x05\x00\x00\x00a.b.c\x86R.",
            "enumerations alone",
        )
    for name in (b"__class__", b"name", b"TORCH"):
        text = b"X" + struct.pack("<I", len(name)) + name
        refused(b"\x80\x04" + named("builtins", "getattr") + named(*enumeration) + text + b"\x86R.", "no member")


NAMESPACE = b"\x80\x02" + named("argparse", "Namespace") + b")\x81"


def test_a_state_has_no_power_over_its_object() -> None:
    made: typing.Any = load(pickled(Fields(Global("argparse", "Namespace"), __class__=1, set_state=2, fields=3))[0])
    assert made.fields == {"__class__": 1, "set_state": 2, "fields": 3}
    assert type(made).__name__ == "Record"
    assert callable(made.set_state)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        # States of what has none, or of another form.
        (NAMESPACE + b"]b.", "no fields by name"),
        (NAMESPACE + b"}K\x01K\x02sb.", "no fields by name"),
        (NAMESPACE + b"N}\x86b.", "."),
        (b"\x80\x02]}b.", "none"),
        (b"\x80\x02}}b.", "none"),
        (b"\x80\x02)}b.", "none"),
        (b"\x80\x02K\x01}b.", "none"),
        (b"\x80\x02" + named("torch", "float32") + b"}b.", "none"),
        (b"\x80\x02" + named("argparse", "Namespace") + b"}b.", "none"),
        # Calls of what is no class, or without a tuple of arguments.
        (b"\x80\x02K\x01)R.", "calls what is no class"),
        (b"\x80\x02" + named("argparse", "Namespace") + b"]R.", "calls what is no class"),
        (b"\x80\x02" + named("torch", "float32") + b")R.", "calls what is no class"),
        (b"\x80\x02" + named("argparse", "Namespace") + b")}K\x01K\x02s\x92.", "named arguments"),
        (b"\x80\x02" + named("argparse", "Namespace") + b")]\x92.", "named arguments"),
        # Instructions that are not carried out.
        (b"\x80\x02\x82\x01.", "0x82"),
        (b"\x80\x02\x83\x01\x00.", "0x83"),
        (b"\x80\x02\x84\x01\x00\x00\x00.", "0x84"),
        (b"\x80\x02Pid\n.", "0x50"),
        (b"\x80\x02I1\n.", "0x49"),
        (b"\x80\x02(ios\nsystem\n.", "0x69"),
        (b"\x80\x02(o.", "0x6f"),
        (b"\x80\x05\x97.", "0x97"),
        (b"\x80\x02\xff.", "0xff"),
        (b"\x80\x06N.", "protocol"),
        (b"\x80\x00N.", "protocol"),
        (b"N.", "protocol 2 or later"),
        (b"", "protocol 2 or later"),
        # References outside of the pickle.
        (b"\x80\x02K\x01Q.", "refers to an object outside"),
        # Sizes that are not there.
        (b"\x80\x02\x8b\xff\xff\xff\x7f.", "whole number"),
        (b"\x80\x02\x8b\xff\xff\xff\xff.", "whole number"),
        (b"\x80\x02\x8b\x41\x00\x00\x00" + b"\1" * 65 + b".", "whole number"),
        (b"\x80\x02\x8a\xff" + b"\1" * 255 + b".", "whole number"),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "cut short"),
        (b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.", "cut short"),
        (b"\x80\x04\x8d" + b"\xff" * 8 + b".", "cut short"),
        (b"\x80\x05\x96" + b"\xff" * 8 + b".", "cut short"),
        (b"\x80\x04B\xff\xff\xff\xff.", "cut short"),
        (b"\x80\x04\x95" + b"\xff" * 8 + b".", "cut short"),
        (b"\x80\x02X\x02\x00\x00\x00\xff\xff.", "no UTF-8"),
        (b"\x80\x02cos", "without an end"),
        (b"\x80\x02c" + b"x" * 5000 + b"\nx\n.", "without an end"),
        # Stack and memory.
        (b"\x80\x02.", "takes more"),
        (b"\x80\x020.", "takes more"),
        (b"\x80\x02(0.", "takes more"),
        (b"\x80\x021.", "not begun"),
        (b"\x80\x02t.", "not begun"),
        (b"\x80\x02u.", "not begun"),
        (b"\x80\x02\x85.", "takes more"),
        (b"\x80\x022.", "takes more"),
        (b"\x80\x02q\x00.", "takes more"),
        (b"\x80\x02(]K\x01(a.", "takes more"),
        (b"\x80\x02h\x00.", "not remembered"),
        (b"\x80\x02j\xff\xff\xff\xff.", "not remembered"),
        (b"\x80\x02]K\x01\x93.", "names a class by what is no text"),
        (b"\x80\x02K\x01K\x02\x93.", "names a class by what is no text"),
        (b"\x80\x02K\x01K\x02a.", "no list"),
        (b"\x80\x02}K\x02a.", "no list"),
        (b"\x80\x02]K\x01K\x02s.", "no dictionary"),
        (b"\x80\x02}(K\x01u.", "without a value"),
        (b"\x80\x04}(K\x01\x90.", "no set"),
        # Keys.
        (b"\x80\x02}]K\x01s.", "key is of type 'list'"),
        (b"\x80\x02}}K\x01s.", "key is of type 'dict'"),
        (b"\x80\x02}K\x01\x85\x85K\x01s.", "key is of type 'tuple'"),
        (b"\x80\x02}(" + b"K\x01" * 17 + b"tK\x01s.", "more than 16 elements"),
        (b"\x80\x02}\x8a\x09" + b"\0" * 8 + b"\x02K\x01s.", "64 bits"),
        (b"\x80\x04\x8f(]\x90.", "key is of type 'list'"),
        (b"\x80\x04(]\x91.", "key is of type 'list'"),
        # Objects that hold themselves.
        (b"\x80\x02]q\x00h\x00a.", "holds itself"),
        (b"\x80\x02}q\x00K\x01h\x00s.", "holds itself"),
        (b"\x80\x02]q\x00h\x00\x85a.", "holds itself"),
        (NAMESPACE + b"q\x00}X\x01\x00\x00\x00ah\x00sb.", "holds itself"),
        (NAMESPACE + b"q\x000}h\x00h\x00s0h\x00}X\x01\x00\x00\x00a}h\x00K\x01ssb.", "holds itself"),
        (b"\x80\x02" + b"]" * 150 + b"a" * 149 + b".", "levels deep"),
        (b"\x80\x02)" + b"\x85" * 100_000 + b".", "levels deep"),
        (b"\x80\x02" + named("collections", "OrderedDict") + b")Rq\x00K\x01h\x00s.", "holds itself"),
    ],
)
def test_a_pickle_that_is_not_sound_is_refused(data: bytes, says: str) -> None:
    if says == ".":
        assert load(data) is not None
    else:
        refused(data, says)


def doubled(levels: int, make: bytes = b"\x86") -> bytes:
    """Returns a pickle of a tuple that holds another twice, which holds another twice, and so on."""
    return b"\x80\x02)q\x00" + b"".join(b"0h\x00h\x00" + make + b"q\x00" for _ in range(levels)) + b"."


def test_what_repeats_itself_is_not_walked_through() -> None:
    refused(doubled(60), "repeats its objects")
    assert load(doubled(10)) is not None
    # A key would take as long to find as the whole takes to walk through.
    refused(b"\x80\x02}" + doubled(60)[2:-1] + b"K\x01s.", "key is of type 'tuple'")


# Arguments, states and ids of all kinds, in all places.
ODD: list[typing.Any] = [
    None,
    True,
    -1,
    0,
    2**62,
    2**200,
    float("nan"),
    "",
    "storage",
    "latin1",
    "f4",
    "C",
    b"",
    b"\xff" * 7,
    (),
    (1, -2),
    (2**40, 2**40),
    ("a", "b"),
    [],
    [[1, 2], [3]],
    [("a", 1), ("b",)],
    {},
    {"a": 1},
    {"conj": True},
    frozenset({1}),
    1j,
    np.zeros(3),
    np.float32(1),
]


def odd_arguments() -> typing.Iterator[tuple[typing.Any, ...]]:
    yield ()
    for count in (1, 2):
        yield from itertools.product(ODD, repeat=count)
    values = itertools.cycle(ODD)
    for count in range(3, 9):
        for _ in range(len(ODD)):
            yield tuple(next(values) for _ in range(count))
        # Starts elsewhere for each count.
        next(values)


def test_each_class_on_the_list_takes_any_arguments_and_any_state() -> None:
    known = [one for one in KNOWN_CLASSES.values() if isinstance(one, KnownClass | EnumClass)]
    assert len(known) > 40
    calls = 0
    for one, arguments in itertools.product(known, odd_arguments()):
        calls += 1
        try:
            made = one.make(arguments)
        except ForeignFormatError:
            continue
        for state in (ODD[calls % len(ODD)], arguments):
            with contextlib.suppress(ForeignFormatError):
                if isinstance(made, StandIn):
                    made.set_state(state)
        repr(made)
    assert calls > 40_000


def test_states_of_arrays_are_checked() -> None:
    from harmonaize.checkpoint.foreign.numpy_values import NumpyType, fill_array, make_unfilled  # noqa: PLC0415

    kinds = [NumpyType("f4"), "f4", None, np.dtype("f4")]
    shapes = [(2,), (-2,), (2**40, 2**40), [2], None, (True,), ("a",), (0, 2**62)]
    data = [b"\0" * 8, b"", "text", None, bytearray(8), np.zeros(2, np.float32)]
    sound = 0
    for version, kind, shape, order, content in itertools.product([1, None], kinds, shapes, [False, "x"], data):
        array = make_unfilled(())
        try:
            fill_array(array, (version, shape, kind, order, content))
        except ForeignFormatError:
            continue
        sound += 1
        assert array.dtype == np.float32
        assert array.nbytes in (0, 8)
    assert sound > 0
    for state in ODD:
        with pytest.raises(ForeignFormatError):
            fill_array(make_unfilled(()), state)


STORAGE = ("storage", Global("torch", "FloatStorage"), "0", "cpu", 70)


def with_id(id: object) -> bytes:
    """Returns a file with one storage, and one tensor that refers to a storage by this id."""
    maker = pickled(Global("torch._utils", "_rebuild_tensor_v2"))[0][:-1]
    parts = (0, (2,), (1,), False, Call(Global("collections", "OrderedDict")))
    reference, *others = (pickled(part)[0][2:-1] for part in (id, *parts))
    data = maker + b"(" + reference + b"Q" + b"".join(others) + b"tR."
    return archive({"data.pkl": data, "data/0": bytes(4 * 70)})


def opens(path: pathlib.Path, data: bytes) -> typing.Any:
    path.write_bytes(data)
    return open_foreign(path)


def test_ids_of_storages_are_checked(tmp_path: pathlib.Path) -> None:
    assert opens(tmp_path / "x", with_id(STORAGE)).read("").tolist() == [0, 0]
    odd: list[object] = [
        *(value for value in ODD if not isinstance(value, np.ndarray | np.float32)),
        STORAGE[:4],
        (*STORAGE, None),
    ]
    for place, value in itertools.product(range(5), ("other", 5, None, -1, 2**70, "../0", "\0", ())):
        changed = list(STORAGE)
        changed[place] = value
        if changed != list(STORAGE) and place != 3:
            odd.append(tuple(changed))
    odd.append(("storage", Global("torch", "Tensor"), "0", "cpu", 70))
    odd.append(("storage", Global("torch", "DoubleStorage"), "0", "cpu", 70))
    for one in odd:
        with pytest.raises(ForeignFormatError, match="refers to what is not there"):
            opens(tmp_path / "x", with_id(one))


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "says"),
    [
        ((10, 7), (7, 1), 1, "outside"),
        ((10, 8), (7, 1), 0, "outside"),
        ((10, 7), (8, 1), 0, "outside"),
        ((1,), (1,), 70, "outside"),
        ((1,), (1,), 2**62, "outside"),
        ((1,), (1,), -1, "no place"),
        ((1,), (1,), True, "no place"),
        ((-1,), (1,), 0, "extent"),
        ((2**62,), (1,), 0, "extent"),
        ((2**62,), (0,), 0, "extent"),
        ((2**40, 2**40), (0, 0), 0, "more elements"),
        ((2**50,), (0,), 0, "repeats"),
        ((70,), (-1,), 0, "strides make no sense"),
        ((70,), (2**63,), 0, "strides make no sense"),
        ((70,), (1, 1), 0, "strides make no sense"),
        ((70,), (True,), 0, "no strides"),
        ((1,) * 33, (1,) * 33, 0, "dimensions"),
    ],
)
def test_tensors_outside_of_their_storage_are_refused(
    tmp_path: pathlib.Path, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, says: str
) -> None:
    with pytest.raises(ForeignFormatError, match=says):
        opens(tmp_path / "x", torch_saved(Tensor(WEIGHTS.reshape(-1), shape, strides, offset)))


@pytest.mark.parametrize(
    "maker", ["_rebuild_sparse_tensor", "_rebuild_nested_tensor", "_rebuild_qtensor", "_rebuild_meta_tensor_no_storage"]
)
def test_tensors_that_are_not_dense_are_refused(tmp_path: pathlib.Path, maker: str) -> None:
    with pytest.raises(ForeignFormatError, match="save dense ones"):
        opens(tmp_path / "x", torch_saved(Call(Global("torch._utils", maker), tensor(WEIGHTS), ())))


# Zip files.


def plain() -> bytes:
    return torch_saved({"w": tensor(WEIGHTS)})


def entries(data: bytes) -> tuple[int, list[int]]:
    """Returns where the end record is, and where the entries of the members are."""
    end = data.rindex(b"PK\5\6")
    at = int.from_bytes(data[end + 16 : end + 20], "little")
    found = []
    while at < end:
        found.append(at)
        lengths = struct.unpack_from("<3H", data, at + 28)
        at += 46 + sum(lengths)
    return end, found


def with_bytes(data: bytes, at: int, change: bytes) -> bytes:
    return data[:at] + change + data[at + len(change) :]


def test_tricks_with_zip_files_are_refused(tmp_path: pathlib.Path) -> None:
    data = plain()
    end, (pickle_at, storage_at) = entries(data)
    u16, u32 = struct.Struct("<H").pack, struct.Struct("<I").pack
    tricks = {
        "compressed": archive({"data.pkl": pickled({})[0] * 100}, zipfile.ZIP_DEFLATED),
        "method": with_bytes(data, storage_at + 10, u16(8)),
        "encrypted": with_bytes(data, storage_at + 8, u16(1)),
        "sizes differ": with_bytes(data, storage_at + 20, u32(5)),
        "larger than the file": with_bytes(data, storage_at + 20, u32(1 << 30) * 2),
        "overlapping": with_bytes(data, storage_at + 42, u32(0)),
        "begins in another": with_bytes(data, storage_at + 42, u32(10)),
        "outside": with_bytes(data, storage_at + 42, u32(len(data))),
        "one name twice": archive_of_twins(),
        "two names": with_bytes(data, data.index(b"archive/data/0"), b"archive/data/1"),
        "no local header": with_bytes(
            data, int.from_bytes(data[storage_at + 42 : storage_at + 46], "little"), b"PK\5\6"
        ),
        "64-bit size is missing": with_bytes(data, storage_at + 20, u32(0xFFFFFFFF) * 2),
        "count too large": with_bytes(data, end + 10, u16(500)),
        "count is in 64 bits": with_bytes(data, end + 10, u16(0xFFFF)),
        "count too small": with_bytes(data, end + 10, u16(1)),
        "list outside": with_bytes(data, end + 16, u32(1 << 31)),
        "list too large": with_bytes(data, end + 12, u32(1 << 31)),
        "comment": with_bytes(data, end + 20, u16(9)),
        "trailing bytes": data + b"x" * 70_000,
        "cut": data[:-1],
        "only the head": data[:60],
        "entry is none": with_bytes(data, pickle_at, b"PK\7\7"),
        "entry's name is long": with_bytes(data, pickle_at + 28, u16(0xFFFF)),
    }
    for name, trick in tricks.items():
        try:
            opens(tmp_path / "x", trick).read("w")
        except ForeignFormatError:
            continue
        pytest.fail(f"the file with the trick '{name}' was read")


def archive_of_twins() -> bytes:
    data = archive({"data.pkl": pickled({})[0], "data.pkL": b"\x80\x02N."})
    return data.replace(b"data.pkL", b"data.pkl")


def test_a_zip_file_with_64_bit_sizes_is_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    data = plain()
    assert b"PK\6\6" in data
    assert b"PK\6\7" in data
    assert np.array_equal(opens(tmp_path / "x", data).read("w"), WEIGHTS)
    at = data.rindex(b"PK\6\6")
    for place, value in ((32, 2**63), (40, 2**63), (48, 2**63), (0, 0)):
        with pytest.raises(ForeignFormatError):
            opens(tmp_path / "x", with_bytes(data, at + place, struct.pack("<Q", value))).read("w")
    locator = data.rindex(b"PK\6\7")
    with pytest.raises(ForeignFormatError):
        opens(tmp_path / "x", with_bytes(data, locator + 8, struct.pack("<Q", 2**63)))


# Attacks on memory, in a process that may not have much of it.

BOMB = """
import pathlib, resource, sys
from harmonaize.checkpoint.foreign import ForeignFormatError, Limits, open_foreign
pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (int(sys.argv[1]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in sys.argv[2:]:
    try:
        one = open_foreign(path, Limits(work=1 << 23))
        for name in one.tensors:
            one.read(name)
        list(one.objects.items())
    except ForeignFormatError as error:
        print(error)
    else:
        sys.exit(f"{path} was read")
"""


def bombs() -> typing.Iterator[bytes]:
    numbers = b"\x80\x02](" + b"K\x01" * 50_000 + b"eq\x00"
    large = b"\x80\x02X" + struct.pack("<I", 1 << 20) + b"x" * (1 << 20) + b"q\x00"
    ordered, as_set = named("collections", "Counter"), named("builtins", "set")
    # Copies of a remembered object, each of which costs a few bytes of the file.
    yield numbers + b"](" + (as_set + b"h\x00\x85R") * 200_000 + b"e."
    yield numbers + b"](" + (named("torch", "Size") + b"h\x00\x85R") * 200_000 + b"e."
    yield large + b"](" + (named("_codecs", "encode") + b"h\x00X\x06\x00\x00\x00latin1\x86R") * 100_000 + b"e."
    yield (
        b"\x80\x02}("
        + b"".join(b"J" + struct.pack("<i", one) + b"N" for one in range(50_000))
        + b"uq\x00]("
        + (ordered + b"h\x00\x85R") * 100_000
        + b"e."
    )
    yield large + b"](" + (b"cnumpy._core.numeric\n_frombuffer\n(h\x00N)X\x01\x00\x00\x00CtR") * 10 + b"e."
    # Arguments that repeat themselves, so that counting them takes for ever.
    times = 5000
    repeated = b"h\x00" * times + b"tq\x00"
    yield b"\x80\x02((((" + b"K\x01" * times + b"tq\x00" + repeated * 3 + b"(" + ordered + b"h\x00R."
    # Whole numbers with one hash, and tuples of them.
    yield b"\x80\x02}(" + b"".join(b"K\x01J" + struct.pack("<i", one) + b"\x86N" for one in range(20_000)) + b"u."
    # A claim of size without the bytes.
    yield b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"."
    yield b"\x80\x02N" + b"r\xff\xff\xff\xff" * 3 + b"j\xfe\xff\xff\xff."


def test_no_file_takes_much_memory(tmp_path: pathlib.Path) -> None:
    paths = []
    for place, bomb in enumerate(bombs()):
        paths.append(tmp_path / f"{place}.pt")
        paths[-1].write_bytes(archive({"data.pkl": bomb}))
    huge = safetensors({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}})
    paths.append(tmp_path / "x.safetensors")
    paths[-1].write_bytes(huge)
    writer = DcpWriter(Classes("torch.distributed.checkpoint", "torch.distributed.checkpoint.metadata"))
    writer.add_tensor("w", WEIGHTS, [((0, 0), (10, 7))])
    writer.entries["w"].fields.update(
        size=(1 << 30, 1 << 20), chunks=[writer.classes.chunk((0, 0), (1 << 30, 1 << 20))]
    )
    paths.append(writer.write(tmp_path / "folder"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", BOMB, "250", *map(str, paths)],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(ran.stdout.splitlines()) == len(paths), ran.stdout


# Random changes.


def test_changed_files_of_torch_save_raise_nothing_else(tmp_path: pathlib.Path) -> None:
    state = {
        "model": {"w": tensor(WEIGHTS), "t": Tensor(WEIGHTS.reshape(-1), (7, 10), (1, 7))},
        "args": Fields(Global("argparse", "Namespace"), lr=0.1, layers=[1, (2, 3)]),
        "array": np_pickled(),
        "step": 7,
    }
    path = tmp_path / "file"
    path.write_bytes(torch_saved(state))
    found = foreign_mutations.run(path, path, 4000, seed=1)
    assert min(found.values()) > 50


def np_pickled() -> Call:
    kind = Call(Global("numpy", "dtype"), "f4", False, True, state=(3, "<", None, None, None, -1, -1, 0))
    made = Global("numpy.core.multiarray", "_reconstruct")
    return Call(made, Global("numpy", "ndarray"), (0,), b"b", state=(1, (2,), kind, False, b"\0" * 8))


def test_changed_pickles_raise_nothing_else() -> None:
    """Changes the pickle inside of files that are whole."""
    source = random.Random(2)  # noqa: S311
    for protocol in (2, 4):
        writer = DcpWriter(Classes("torch.distributed.checkpoint", "torch.distributed.checkpoint.metadata"))
        writer.add_tensor("w", WEIGHTS, [((0, 0), (10, 7))])
        data, _ = pickled(writer.classes.metadata(writer.entries, writer.places), protocol)
        for _ in range(4000):
            changed = foreign_mutations.mutated(data, source)
            with contextlib.suppress(ForeignFormatError):
                load(changed)


def test_changed_folders_raise_nothing_else(tmp_path: pathlib.Path) -> None:
    writer = DcpWriter(Classes("torch.distributed.checkpoint", "torch.distributed.checkpoint.metadata"))
    writer.add_tensor("w", WEIGHTS, [((0, 0), (4, 7)), ((4, 0), (6, 7))])
    writer.add_object("step", 3)
    folder = writer.write(tmp_path / "folder")
    for seed, name in enumerate((".metadata", "__0_0.distcp")):
        found = foreign_mutations.run(folder, folder / name, 2000, seed=seed)
        assert found[True] > 0
        assert found[False] > 0


def test_changed_files_of_safetensors_raise_nothing_else(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors({"__metadata__": {"a": "b"}, "w": describe(WEIGHTS, 0)}, WEIGHTS.tobytes()))
    found = foreign_mutations.run(path, path, 3000, seed=4)
    assert min(found.values()) > 50
