"""Nested states as values by name, and back."""

from __future__ import annotations

import dataclasses
import sys
import typing

from harmonaize.checkpoint.names import checked_name
from harmonaize.checkpoint.shard import Shard

State = typing.Mapping[str, typing.Any]
"""What is saved: values by name, and lists and mappings of them, as deep as they like."""


@dataclasses.dataclass(slots=True)
class Leaf:
    """A value of a state, and where it is: `holder[key]`. `path` are the keys that lead to it."""

    value: typing.Any
    holder: typing.Any
    key: typing.Any
    path: tuple[str | int, ...]

    def replace(self, value: typing.Any) -> None:
        """Puts another value in its place. TypeError: what holds it cannot be changed."""
        if not isinstance(self.holder, list | typing.MutableMapping):
            raise TypeError(f"'{'.'.join(map(str, self.path))}' is in a {type(self.holder).__name__}: put it in a list")
        self.holder[self.key] = value


class FlatState:
    """A state's values by name, with the state dictionaries of objects that have one."""

    def __init__(self, state: State) -> None:
        """Walks through a state: through all mappings, and through lists and tuples that have something to walk
        through, or an array or a tensor, in them. Names are the keys joined by dots, as torch.distributed.checkpoint
        has them. What has `state_dict` and `load_state_dict` stands for what `state_dict` returns.

        ValueError: a name may not be one, or two values have the same.
        """
        self.leaves: dict[str, Leaf] = {}
        self._owners: list[tuple[typing.Any, typing.Any]] = []
        self._walk_mapping(state, ())

    def hand_back(self) -> None:
        """Gives the objects their state dictionaries, whose values may have been replaced."""
        for owner, made in self._owners:
            owner.load_state_dict(made)

    def _walk_mapping(self, holder: typing.Mapping[typing.Any, typing.Any], path: tuple[str | int, ...]) -> None:
        for key, value in holder.items():
            self._visit(holder, key, value, (*path, str(key)))

    def _visit(self, holder: typing.Any, key: typing.Any, value: typing.Any, path: tuple[str | int, ...]) -> None:
        if is_array(value):
            self._add(Leaf(value, holder, key, path))
        elif isinstance(value, typing.Mapping):
            self._walk_mapping(value, path)
        elif isinstance(value, list | tuple) and any(_is_walked(one) for one in value):
            for place, one in enumerate(value):
                self._visit(value, place, one, (*path, place))
        elif _has_state(value):
            made = value.state_dict()
            self._owners.append((value, made))
            self._walk_mapping(made, path)
        else:
            self._add(Leaf(value, holder, key, path))

    def _add(self, leaf: Leaf) -> None:
        name = checked_name(".".join(map(str, leaf.path)))
        if name in self.leaves:
            raise ValueError(f"two values of the state have the name '{name}': use another key for one of them")
        self.leaves[name] = leaf


def is_array(value: typing.Any) -> bool:
    """Returns whether a value is saved as a tensor."""
    torch = sys.modules.get("torch")
    if torch is not None and (isinstance(value, torch.Tensor) or hasattr(value, "local_shards")):
        return True
    numpy = sys.modules.get("numpy")
    return isinstance(value, Shard) or (numpy is not None and isinstance(value, numpy.ndarray | numpy.generic))


def _is_walked(value: typing.Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_is_walked(one) for one in value)
    return isinstance(value, typing.Mapping) or is_array(value)


def _has_state(value: typing.Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
