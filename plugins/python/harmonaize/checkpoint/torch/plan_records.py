"""What torch.distributed.checkpoint knows of its items beside their elements, as JSON: the keys that lead to each in
the nested state.
"""

from __future__ import annotations

import json
import typing

from harmonaize.checkpoint.errors import CheckpointError

Path = tuple[str | int, ...]


def encode(paths: typing.Mapping[str, typing.Sequence[str | int]]) -> bytes:
    """Returns the paths of a rank's items as an object's bytes."""
    return json.dumps({"version": 1, "paths": {name: list(path) for name, path in paths.items()}}).encode()


def decode(text: bytes) -> dict[str, Path]:
    """Returns what `encode` was given. CheckpointError: it is no such text."""
    try:
        document = json.loads(text)
        if document["version"] != 1:
            raise CheckpointError(f"a plan of version {document['version']!r} is not read: install a later release")
        return {name: _path(path) for name, path in document["paths"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"the checkpoint's plan is damaged: {error!r}") from error


def _path(path: typing.Any) -> Path:
    if not isinstance(path, list) or not all(type(key) in {str, int} for key in path):
        raise ValueError("a path is no list of keys")
    return tuple(path)
