"""Shares of the work among ranks whose number changes, and what a state keeps."""

from __future__ import annotations

import pytest

from harmonaize import elastic


def shares(policy: elastic.Policy, size: int, first_size: int = 4) -> list[elastic.Share]:
    return [policy(elastic.World(rank, size, 1, first_size, one_host=True)) for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 30])
def test_the_global_batch_is_shared_without_gap_or_overlap(size: int) -> None:
    parts = shares(elastic.keep_global_batch(24, most_per_pass=5), size)
    taken = [sample for part in parts for sample in range(part.first, part.first + part.samples)]
    assert taken == list(range(24))
    assert len({part.accumulation for part in parts}) == 1
    assert all(part.micro_batch <= 5 and part.micro_batch * part.accumulation >= part.samples for part in parts)
    assert sum(part.weight for part in parts) == pytest.approx(size)
    assert {part.learning_rate_factor for part in parts} == {1.0}


def test_the_batch_follows_the_ranks_and_the_learning_rate_the_batch() -> None:
    for rule, factor in (("linear", 0.25), ("sqrt", 0.5), ("constant", 1.0)):
        (part,) = shares(elastic.scale_batch(10, learning_rate=rule), 1)  # type: ignore[arg-type]
        assert (part.global_batch, part.samples, part.accumulation) == (10, 10, 1)
        assert part.learning_rate_factor == factor
    assert [part.first for part in shares(elastic.scale_batch(10), 3)] == [0, 10, 20]


def test_a_batch_has_a_sample() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        elastic.keep_global_batch(0)
    with pytest.raises(ValueError, match="at least one sample"):
        elastic.scale_batch(3, most_per_pass=0)


def test_a_state_says_what_it_cannot_keep() -> None:
    np = pytest.importorskip("numpy", reason="NumPy is not installed: pip install numpy, or Debian's python3-numpy")
    state = elastic.NumpyState(weights=np.zeros(2), step=0, names=["a"])
    state.step += 1
    assert (state.step, state.names) == (1, ["a"])
    with pytest.raises(AttributeError, match="name all values when it is made"):
        state.other = 1
    with pytest.raises(ValueError, match="cannot be called 'commit'"):
        elastic.NumpyState(commit=1)
    with pytest.raises(TypeError, match="'thing' is a set"):
        elastic.NumpyState(thing={1})
    with pytest.raises(TypeError, match="without loss"):
        elastic.NumpyState(table={1: 2})
    with pytest.raises(TypeError, match="no plain numbers"):
        elastic.NumpyState(things=np.array([object()]))
    with pytest.raises(elastic.ElasticError, match=r"call elastic\.run"):
        state.commit()
