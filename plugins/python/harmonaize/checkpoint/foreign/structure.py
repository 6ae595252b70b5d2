"""How deep and how large the structure is that a pickle has made, when it is walked through."""

from __future__ import annotations

import typing

from harmonaize.checkpoint.foreign.errors import ForeignFormatError
from harmonaize.checkpoint.foreign.limits import Limits
from harmonaize.checkpoint.foreign.stand_ins import Record, StandIn

# What a walk sees of an object: how many objects it passes, and how many levels it goes down.
_Weight = tuple[int, int]

# The weight of an object whose children are being weighed. Meeting one means that it holds itself.
_OPEN: _Weight = (-1, -1)


def check_structure(root: object, limits: Limits, where: str) -> None:
    """Checks that a walk through `root` ends soon.

    A few bytes of a pickle can make a list that holds itself, or lists that hold each other twice at each of fifty
    levels. ForeignFormatError: `root` is such, or deeper or larger than the limits. Each object is looked at once.
    """
    weights: dict[int, _Weight] = {}
    waiting = [root]
    while waiting:
        value = waiting[-1]
        known = weights.get(id(value))
        if known is not None and known != _OPEN:
            waiting.pop()
            continue
        held = children_of(value)
        children = [child for child in held if _is_container(child)]
        if known is None:
            weights[id(value)] = _OPEN
            ahead = [child for child in children if weights.get(id(child), _OPEN) == _OPEN]
            if any(id(child) in weights for child in ahead):
                raise ForeignFormatError(f"{where} has an object that holds itself")
            waiting.extend(ahead)
            if len(waiting) > limits.work:
                raise ForeignFormatError(f"{where} has more objects than a checkpoint has")
        if known == _OPEN or not children:
            waiting.pop()
            leaves = len(held) - len(children)
            weights[id(value)] = _weight(leaves, [weights[id(child)] for child in children], limits, where)


def _weight(leaves: int, children: list[_Weight], limits: Limits, where: str) -> _Weight:
    size = 1 + leaves + sum(child[0] for child in children)
    depth = 1 + max((child[1] for child in children), default=0)
    if depth > limits.depth:
        raise ForeignFormatError(f"{where} is nested more than {limits.depth} levels deep")
    if size > limits.work:
        raise ForeignFormatError(f"{where} repeats its objects more than {limits.work} times")
    return size, depth


def children_of(value: object) -> typing.Collection[object]:
    """Returns the objects that one object of a pickle holds."""
    if isinstance(value, StandIn):
        return value.children()
    if isinstance(value, dict):
        return children_of_mapping(value)
    if isinstance(value, list | tuple):
        return value
    return ()


def children_of_mapping(value: dict[typing.Any, object]) -> typing.Collection[object]:
    """Returns the values, and the keys that hold something themselves."""
    keys = [key for key in value if isinstance(key, Record)]
    return [*keys, *value.values()] if keys else value.values()


def _is_container(value: object) -> bool:
    return isinstance(value, StandIn | dict | list | tuple)
