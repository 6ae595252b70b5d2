"""Names of what lies in nested dictionaries and lists, as PyTorch's distributed checkpoints make them."""

from __future__ import annotations

import typing

from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.lazy_tensor import LazyTensor

# Longest name, in characters. Names of nested dictionaries grow with each level, so that a small file could make large
# ones.
_LONGEST_NAME = 4096

# Most names in one file: a model of a trillion parameters has some 100,000 tensors.
_MOST_NAMES = 1 << 22


class Flat(typing.NamedTuple):
    """What a structure holds, by dotted names."""

    tensors: dict[str, LazyTensor]
    objects: dict[str, object]


def flatten(root: object, where: str) -> Flat:
    """Returns the tensors of a structure, and what is no tensor.

    The key of a dictionary and the place in a list are parts of a name: `optimizer.state.0.exp_avg`. A list without
    tensors and dictionaries is one object, and so is an empty dictionary.

    ForeignFormatError: two have one name, or a name is too long.
    """
    flat = Flat({}, {})
    if isinstance(root, dict) or _is_walked(root):
        _add_children(flat, "", root, where)
    else:
        _add(flat, "", root, where)
    return flat


def _add_children(flat: Flat, prefix: str, value: typing.Any, where: str) -> None:
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        part = key if isinstance(key, str) else repr(key)
        name = f"{prefix}.{part}" if prefix else part
        if len(name) > _LONGEST_NAME:
            raise ForeignFormatError(f"{where} has a name of more than {_LONGEST_NAME} characters: {quoted(name)}")
        _add(flat, name, child, where)


def _add(flat: Flat, name: str, value: object, where: str) -> None:
    if _is_walked(value):
        _add_children(flat, name, value, where)
        return
    if name in flat.tensors or name in flat.objects:
        raise ForeignFormatError(f"{where} has two values with the name {quoted(name)}")
    if len(flat.tensors) + len(flat.objects) == _MOST_NAMES:
        raise ForeignFormatError(f"{where} has more than {_MOST_NAMES} names")
    if isinstance(value, LazyTensor):
        flat.tensors[name] = value
    else:
        flat.objects[name] = value


def _is_walked(value: object) -> bool:
    """Returns whether a value's parts have names of their own."""
    if isinstance(value, dict):
        return len(value) > 0
    if isinstance(value, list | tuple):
        return any(isinstance(one, LazyTensor | dict) or _is_walked(one) for one in value)
    return False
