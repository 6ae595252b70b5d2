"""Changes files at random, and sees that reading them raises the package's own error or nothing."""

from __future__ import annotations

import pathlib
import random
import typing

from harmonaize.checkpoint.foreign import ForeignFormatError, Limits, open_foreign

# Numbers that often stand at the edge of a rule, as bytes.
_EDGES = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff" * 4,
    b"\xff" * 8,
    b"\x00" * 8,
    b"\xff\xff\xff\x7f",
    b"-1",
    b"9" * 30,
)

# Instructions of a pickle: one in the place of another changes what it means.
_INSTRUCTIONS = b"(.0123NKMJGXCBqrhjc]})tealdsubRQ" + bytes(range(0x80, 0x97))

# Small, so that a mutation that makes work ends soon.
_LIMITS = Limits(bytes=1 << 20, work=1 << 20)


def mutated(data: bytes, source: random.Random) -> bytes:
    """Returns the bytes with one to four changes."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(changed) + 1)
        kind = source.randrange(6)
        if kind == 0:
            changed[at : at + 1] = bytes([source.randrange(256)])
        elif kind == 1:
            changed[at : at + 1] = bytes([source.choice(_INSTRUCTIONS)])
        elif kind == 2:
            edge = source.choice(_EDGES)
            changed[at : at + len(edge)] = edge
        elif kind == 3:
            del changed[at : at + source.randint(1, 30)]
        elif kind == 4:
            other = source.randrange(len(changed) + 1)
            changed[at:at] = changed[other : other + source.randint(1, 40)]
        else:
            changed[at : at + 1] = bytes([changed[at] ^ (1 << source.randrange(8))] if at < len(changed) else [0])
    return bytes(changed)


def read_all(path: pathlib.Path) -> bool:
    """Reads all of a checkpoint that is small; returns whether it could be read."""
    try:
        one = open_foreign(path, _LIMITS)
        for name, tensor in one.tensors.items():
            array = one.read(name)
            assert (array.shape, array.dtype) == (tensor.shape, tensor.type.numpy_dtype)
        list(one.objects.items())
        assert one.step is None or isinstance(one.step, int)
    except ForeignFormatError:
        return False
    return True


def run(path: pathlib.Path, file: pathlib.Path, count: int, seed: int) -> typing.Counter[bool]:
    """Reads the checkpoint at `path` with so many mutations of one of its files; returns how many could be read."""
    source = random.Random(seed)  # noqa: S311
    data = file.read_bytes()
    assert read_all(path)
    found: typing.Counter[bool] = typing.Counter()
    for _ in range(count):
        file.write_bytes(mutated(data, source))
        found[read_all(path)] += 1
    file.write_bytes(data)
    assert read_all(path)
    return found
