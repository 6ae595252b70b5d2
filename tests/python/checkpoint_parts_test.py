"""Plain values as JSON, names, and how ranks divide what all of them have."""

from __future__ import annotations

import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
import typing

import pytest

from harmonaize.checkpoint import own_names
from harmonaize.checkpoint.division import apply, parts_of
from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.flattening import FlatState
from harmonaize.checkpoint.names import checked_name
from harmonaize.checkpoint.piece import Piece, object_piece
from harmonaize.checkpoint.values import decode_values, encode_values


def test_plain_values_come_back_as_they_were() -> None:
    values = {
        "numbers": [0, -1, 2**80, 0.1, -0.0, float("inf")],
        "complex": 1.5 - 2j,
        "tuple": (1, ("a", None), []),
        "mapping": {1: "a", "1": "b", (1, 2): {"tuple": [1]}},
        "bytes": b"\x00\xff",
        "texts": ["é", "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"), True],
    }
    back = decode_values(encode_values(values))
    assert back == values
    assert math.copysign(1, back["numbers"][4]) == -1
    assert math.isnan(decode_values(encode_values({"a": float("nan")}))["a"])
    assert type(back["tuple"]) is tuple


def test_the_text_of_values_keeps_its_length_when_a_number_grows() -> None:
    assert len(encode_values({"step": 9})) == len(encode_values({"step": 10**9}))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version":2,"values":{}}',
        b'{"version":1,"values":[]}',
        b'{"version":1,"values":{"a":{"set":[1]}}}',
        b'{"version":1,"values":{"a":{}}}',
        b'{"version":1,"values":{"a":{"float":"x"}}}',
        b'{"version":1,"values":{"a":{"mapping":[[1]]}}}',
        b'{"version":1,"values":{"a":{"mapping":[[[],1]]}}}',
        b"[" * 100_000,
    ],
)
def test_damaged_values_are_told(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        decode_values(text)


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: list[typing.Any] = []
    circle.append(circle)
    with pytest.raises(TypeError, match="levels deep"):
        encode_values({"a": circle})


def piece(name: str, *shape: int) -> Piece:
    return Piece(name, ElementType.F32, shape, (0,) * len(shape), shape, memoryview(b""), 1 << 40)


def boxes(parts: list[Piece]) -> dict[str, list[tuple[tuple[int, ...], tuple[int, ...], int | None]]]:
    found: dict[str, list[tuple[tuple[int, ...], tuple[int, ...], int | None]]] = {}
    for one in parts:
        found.setdefault(one.name, []).append((one.offset, one.shape, one.address))
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 64])
def test_each_element_is_saved_once_and_all_ranks_have_about_as_much(ranks: int) -> None:
    pieces = [
        piece("large", 1000, 700),
        piece("leading", 1, 1, 900, 300),
        piece("few", 3, 100_000),
        object_piece("object", b"x" * 1_000_000),
        piece("scalar"),
        piece("empty", 0, 5),
        *(piece(f"small{at}", at + 1) for at in range(200)),
    ]
    everyones = [apply(parts_of(pieces, rank, ranks), pieces) for rank in range(ranks)]
    found = boxes(list(itertools.chain.from_iterable(everyones)))
    assert set(found) == {one.name for one in pieces}
    for one in pieces:
        sizes = [math.prod(shape) for _, shape, _ in found[one.name]]
        assert sum(sizes) == math.prod(one.shape)
        assert len(sizes) == 1 or one.name in {"large", "leading", "few"}
    begins = sorted((offset[0], shape[0], address) for offset, shape, address in found["large"])
    end = 0
    for begin, rows, address in begins:
        assert begin == end
        assert address == (1 << 40) + begin * 700 * 4
        end += rows
    assert end == 1000
    loads = [sum(one.bytes for one in mine) for mine in everyones]
    largest = max(one.bytes for one in pieces if one.name in {"object", "few"})
    assert max(loads) - min(loads) <= largest


def test_names_are_those_of_nested_keys() -> None:
    leaves = FlatState({"a": {"b": [{"c": 1}, {"d": (2, 3)}]}, 5: {}, "e": [1, 2]}).leaves  # type: ignore[dict-item]
    assert {name: leaf.value for name, leaf in leaves.items()} == {"a.b.0.c": 1, "a.b.1.d": (2, 3), "e": [1, 2]}
    assert leaves["a.b.0.c"].path == ("a", "b", 0, "c")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", "\n", "\x7f", "x" * 1025, "harmonaize.values.0"])
def test_names_that_may_not_be(name: str) -> None:
    with pytest.raises(ValueError, match="use another key"):
        checked_name(name)


def test_own_objects_are_told_from_a_programs() -> None:
    assert own_names.rank_of_values(own_names.values_name(12)) == 12
    assert own_names.rank_of_plan(own_names.plan_name(0)) == 0
    assert own_names.pickled(own_names.pickle_name(3, "a.b")) == (3, "a.b")
    for name in ("values.0", "harmonaize.values.", "harmonaize.values.x", "harmonaize.values.²"):
        assert own_names.rank_of_values(name) is None
    assert own_names.pickled("harmonaize.pickles.x.a") is None


def test_encoded_texts_are_json() -> None:
    assert json.loads(encode_values({"a": [1]})) == {"version": 1, "values": {"a": [1]}}


def test_a_program_without_pytorch_does_not_wait_until_it_is_imported(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("numpy")
    (tmp_path / "torch.py").write_text("raise RuntimeError('PyTorch was imported')\n")
    package = pathlib.Path(__file__).resolve().parents[2] / "plugins" / "python"
    program = "\n".join(
        (
            "import numpy as np",
            "from harmonaize.checkpoint.checkpointer import pieces_of_state",
            "own, whole, values = pieces_of_state({'step': 3, 'model': np.ones(3)})",
            "assert (len(own), len(whole), values) == (0, 1, {'step': 3})",
        )
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join((str(tmp_path), str(package))))
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
