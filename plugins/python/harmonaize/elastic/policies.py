"""How the work is shared among ranks whose number changes."""

from __future__ import annotations

import dataclasses
import math
import typing

from harmonaize.elastic.world import World

Policy = typing.Callable[[World], typing.Any]
"""Decides something for a rank at each change. `state.share(name)` gives what it returned."""


@dataclasses.dataclass(frozen=True)
class Share:
    """A rank's part of each step's batch, whose samples are numbered from 0 in each step.

    The rank takes the samples from `first` to `first + samples`, in `accumulation` backward passes of `micro_batch`
    samples at most. Its mean gradient counts with `weight`, which is 1 where all ranks have as many samples: multiply
    the loss by it where gradients are averaged over the ranks. `learning_rate_factor` is what the learning rate of the
    beginning is to be multiplied by.
    """

    global_batch: int
    first: int
    samples: int
    micro_batch: int
    accumulation: int
    weight: float
    learning_rate_factor: float


def keep_global_batch(samples: int, most_per_pass: int | None = None) -> Policy:
    """Returns a policy by which all ranks together take `samples` in each step, whatever their number: the training's
    course stays the same. Fewer ranks take more samples each, at most `most_per_pass` in one backward pass.

    ValueError: a number is less than 1.
    """
    _check_positive(samples, most_per_pass)

    def decide(world: World) -> Share:
        return _share(world, samples, most_per_pass, learning_rate_factor=1.0)

    return decide


def scale_batch(
    samples_per_rank: int,
    most_per_pass: int | None = None,
    learning_rate: typing.Literal["linear", "sqrt", "constant"] = "linear",
) -> Policy:
    """Returns a policy by which each rank takes `samples_per_rank` in each step: steps take as long as before.

    The learning rate follows the batch linearly (Goyal et al. 2017), by its square root, or not at all, from the number
    of ranks with which the process has begun. ValueError: a number is less than 1.
    """
    _check_positive(samples_per_rank, most_per_pass)
    exponent = {"linear": 1.0, "sqrt": 0.5, "constant": 0.0}[learning_rate]

    def decide(world: World) -> Share:
        factor = math.pow(world.size / world.first_size, exponent)
        return _share(world, samples_per_rank * world.size, most_per_pass, learning_rate_factor=factor)

    return decide


def _share(world: World, samples: int, most_per_pass: int | None, *, learning_rate_factor: float) -> Share:
    first, end = (samples * rank // world.size for rank in (world.rank, world.rank + 1))
    # All ranks make as many passes, so that they meet in the same operations.
    largest = -(-samples // world.size)
    accumulation = 1 if most_per_pass is None else max(1, -(-largest // most_per_pass))
    return Share(
        global_batch=samples,
        first=first,
        samples=end - first,
        micro_batch=-(-largest // accumulation),
        accumulation=accumulation,
        weight=(end - first) * world.size / samples,
        learning_rate_factor=learning_rate_factor,
    )


def _check_positive(samples: int, most_per_pass: int | None) -> None:
    if samples < 1 or (most_per_pass is not None and most_per_pass < 1):
        raise ValueError("a batch has at least one sample, and so has a backward pass")
