"""Every type and operator that torch has gives the right result, or is refused with a reason."""

from __future__ import annotations

import functools
import operator
import typing

import pytest
import torch
import torch.distributed as dist
from ranks import Jobs, RankFunction

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
INTEGERS += [getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
EIGHTS = [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]

Reducer = typing.Callable[[list[typing.Any]], typing.Any]


def folded(combine: typing.Callable[[typing.Any, typing.Any], typing.Any]) -> Reducer:
    return lambda values: functools.reduce(combine, values)


ON_NUMBERS: dict[str, Reducer] = {
    "SUM": sum,
    "PRODUCT": folded(operator.mul),
    "MIN": min,
    "MAX": max,
    "AVG": lambda values: sum(values) // len(values) if isinstance(values[0], int) else sum(values) / len(values),
}
ON_BITS: dict[str, Reducer] = {
    "BAND": folded(operator.and_),
    "BOR": folded(operator.or_),
    "BXOR": folded(operator.xor),
}


def expected(values: list[list[typing.Any]], reducer: Reducer) -> list[typing.Any]:
    return [reducer(list(column)) for column in zip(*values)]


def check(dtype: torch.dtype, values: list[list[typing.Any]], name: str, reducer: Reducer, rank: int) -> None:
    """Reduces by all three collectives that reduce; `values` has a list for each rank."""
    op = getattr(dist.ReduceOp, name)
    size = len(values)
    right = torch.tensor(expected(values, reducer)).to(dtype)
    tensor = torch.tensor(values[rank]).to(dtype)
    dist.all_reduce(tensor, op=op)
    assert tensor.tolist() == right.tolist(), f"all_reduce {dtype} {name}"
    tensor = torch.tensor(values[rank]).to(dtype)
    dist.reduce(tensor, 0, op=op)
    if rank == 0:
        assert tensor.tolist() == right.tolist(), f"reduce {dtype} {name}"
    whole = torch.cat([torch.tensor(values[rank]).to(dtype)] * size)
    output = torch.zeros(len(values[rank]), dtype=dtype)
    dist.reduce_scatter(output, list(whole.chunk(size)), op=op)
    assert output.tolist() == right.tolist(), f"reduce_scatter {dtype} {name}"


def rank_reduces_integers(rank: int, size: int) -> None:
    values = [[3 + one, 10 * (one % 2), 5, 7 - one] for one in range(size)]
    for dtype in INTEGERS:
        for name, reducer in {**ON_NUMBERS, **ON_BITS}.items():
            check(dtype, values, name, reducer, rank)


def rank_reduces_floats(rank: int, size: int) -> None:
    values = [[0.5 * one, -2.0, 1.0 + one, 8.0] for one in range(size)]
    for dtype in FLOATS + EIGHTS:
        for name, reducer in ON_NUMBERS.items():
            if name == "AVG" and size == 3:
                continue  # Thirds are not exact.
            if dtype in EIGHTS and name == "PRODUCT":
                continue  # Products are not exact.
            check(dtype, values, name, reducer, rank)


def rank_reduces_truth(rank: int, size: int) -> None:
    values = [[one == 0, True, False, one % 2 == 0] for one in range(size)]
    rules: dict[str, Reducer] = {
        "SUM": any,
        "MAX": any,
        "BOR": any,
        "PRODUCT": all,
        "MIN": all,
        "BAND": all,
        "BXOR": lambda bits: sum(bits) % 2 == 1,
    }
    for name, reducer in rules.items():
        check(torch.bool, values, name, reducer, rank)


def rank_reduces_complex(rank: int, size: int) -> None:
    for dtype in COMPLEX:
        mine = torch.tensor([1 + 2j, -1j]).to(dtype) * (rank + 1)
        everything = torch.stack([torch.tensor([1 + 2j, -1j]).to(dtype) * (one + 1) for one in range(size)])
        tensor = mine.clone()
        dist.all_reduce(tensor)
        assert torch.equal(tensor, everything.sum(0))
        # PyTorch stores this view with its sign pending.
        negated = mine.conj().imag
        dist.all_gather(pieces := [torch.zeros_like(negated) for _ in range(size)], negated)
        assert torch.equal(torch.stack(pieces), -everything.imag)


def rank_multiplies_before_sums(rank: int, size: int) -> None:
    make = getattr(dist, "_make_nccl_premul_sum", None) or getattr(dist, "_make_premul_sum")  # noqa: B009
    for dtype in [torch.float32, torch.float64, torch.float16, torch.int32, torch.int16]:
        tensor = torch.tensor([1, 2, 3]).to(dtype)
        dist.all_reduce(tensor, op=make(2.0 * (rank + 1)))
        assert tensor.tolist() == [sum(2 * (one + 1) * value for one in range(size)) for value in (1, 2, 3)]


def rank_wraps_around(rank: int, size: int) -> None:
    for dtype, most in [(torch.int16, 32767), (torch.int32, 2**31 - 1), (torch.int64, 2**63 - 1)]:
        tensor = torch.tensor([most if rank == 0 else 1], dtype=dtype)
        dist.all_reduce(tensor)
        assert tensor.item() == most + size - 1 - 2 * (most + 1)


def rank_carries_all_types(rank: int, size: int) -> None:
    for dtype in INTEGERS + FLOATS + EIGHTS + COMPLEX + [torch.bool]:
        everything = [(torch.arange(6) % 2 + one % 2).to(dtype) for one in range(size)]
        pieces = [torch.zeros(6).to(dtype) for _ in range(size)]
        dist.all_gather(pieces, everything[rank])
        for piece, right in zip(pieces, everything):
            assert piece.tolist() == right.tolist(), dtype
        tensor = everything[rank].clone()
        dist.broadcast(tensor, size - 1)
        assert tensor.tolist() == everything[size - 1].tolist(), dtype


def rank_is_refused(rank: int, size: int) -> None:
    del rank, size
    for tensor, name, words in [
        (torch.ones(2), "BAND", "Cannot use ReduceOp.BAND with non-integral dtype"),
        (torch.ones(2, dtype=torch.float64), "BXOR", "Cannot use ReduceOp.BXOR with non-integral dtype"),
        (torch.ones(2, dtype=torch.bool), "AVG", "Cannot use ReduceOp.AVG with Boolean inputs"),
    ]:
        with pytest.raises(RuntimeError, match=words):
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
    # A call that is refused leaves the group as it was.
    dist.all_reduce(torch.ones(2))


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    "function",
    [
        rank_reduces_integers,
        rank_reduces_floats,
        rank_reduces_truth,
        rank_reduces_complex,
        rank_multiplies_before_sums,
        rank_carries_all_types,
    ],
)
def test_a_type_is_reduced_and_carried_as_it_should(jobs: Jobs, function: RankFunction, size: int) -> None:
    jobs.run(function, size)


def test_sums_of_integers_wrap_around(jobs: Jobs) -> None:
    jobs.run(rank_wraps_around, 2)


def test_what_cannot_be_reduced_is_refused_in_torchs_words(jobs: Jobs) -> None:
    jobs.run(rank_is_refused, 2)
