"""Plain values of Python as JSON, without loss, and never as a pickle."""

from __future__ import annotations

import base64
import json
import math
import typing

# A text of values is filled up to a multiple of so many bytes: the layout of a save stays the same when a number grows
# by a digit.
_ROUND_BYTES = 1024
# Deepest nesting of a value. JSON's own limit is Python's stack.
_MOST_LEVELS = 100

# The one key of what stands for a value that JSON does not have.
_TUPLE, _MAPPING, _FLOAT, _COMPLEX, _BYTES = "tuple", "mapping", "float", "complex", "bytes"


def encode_values(values: typing.Mapping[str, typing.Any]) -> bytes:
    """Returns values by name as an object's bytes. TypeError: one is of a type that is not kept, with the way out."""
    encoded = {name: encoded_value(value, name) for name, value in values.items()}
    text = json.dumps({"version": 1, "values": encoded}, allow_nan=False).encode()
    return text.ljust(-(-len(text) // _ROUND_BYTES) * _ROUND_BYTES)


def decode_values(text: bytes) -> dict[str, typing.Any]:
    """Returns what `encode_values` was given. ValueError: it is no such text."""
    try:
        document = json.loads(text)
        if document["version"] != 1:
            raise ValueError(f"values of version {document['version']!r} are not read: install a later release")
        return {name: decoded_value(value) for name, value in document["values"].items()}
    except (TypeError, KeyError, RecursionError, AttributeError) as error:
        raise ValueError(f"the checkpoint's plain values are damaged: {error!r}") from error


def is_plain(value: typing.Any) -> bool:
    """Returns whether `encoded_value` takes the value."""
    try:
        encoded_value(value, "")
    except TypeError:
        return False
    return True


def encoded_value(value: typing.Any, where: str, level: int = 0) -> typing.Any:  # noqa: PLR0911
    """Returns what stands for a value in JSON. TypeError: nothing does."""
    if level > _MOST_LEVELS:
        raise TypeError(f"'{where}' is nested more than {_MOST_LEVELS} levels deep")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_FLOAT: repr(float(value))}
    if isinstance(value, list):
        return [encoded_value(one, where, level + 1) for one in value]
    if isinstance(value, tuple):
        return {_TUPLE: [encoded_value(one, where, level + 1) for one in value]}
    if isinstance(value, typing.Mapping):
        pairs = value.items()
        return {
            _MAPPING: [
                [encoded_value(key, where, level + 1), encoded_value(one, where, level + 1)] for key, one in pairs
            ]
        }
    if isinstance(value, complex):
        return {_COMPLEX: [repr(value.real), repr(value.imag)]}
    if isinstance(value, bytes | bytearray | memoryview):
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(
        f"'{where}' is a {type(value).__name__}, which a checkpoint does not keep: it has arrays, tensors, numbers, "
        "texts, lists, dictionaries and bytes. Turn it into these, as by its state_dict(), or into bytes"
    )


def decoded_value(value: typing.Any) -> typing.Any:  # noqa: PLR0911
    """Returns the value that something in JSON stands for. ValueError, TypeError: it stands for none."""
    if isinstance(value, list):
        return [decoded_value(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == _TUPLE:
        return tuple(decoded_value(one) for one in content)
    if kind == _MAPPING:
        return {decoded_value(key): decoded_value(one) for key, one in content}
    if kind == _FLOAT:
        return float(content)
    if kind == _COMPLEX:
        return complex(*(float(part) for part in content))
    if kind == _BYTES:
        return base64.b64decode(content, validate=True)
    raise ValueError(f"'{kind}' stands for no value that this release knows")
