"""Names of tensors and objects: the keys of a nested state, joined by dots."""

from __future__ import annotations

import functools
import os

RESERVED = "harmonaize."
"""What names of the package's own objects begin with."""

PROVIDER_STORE = "provider:"
"""In place of a folder: the provider's store, which the daemons write and read back. Not every provider has one."""

# Longest name in bytes, as harmonaize.h has it.
_MOST_BYTES = 1024
# The control character that does not come before the blank.
_DELETE = "\x7f"
# Names that were checked already and are remembered: those of a few states.
_REMEMBERED = 1 << 17


def folder_bytes(folder: str | os.PathLike[str] | None) -> bytes | None:
    """Returns a folder as the library takes it: its absolute path, the provider's store, or none."""
    if folder is None:
        return None
    path = os.fsencode(folder)
    return path if path == PROVIDER_STORE.encode() else os.path.abspath(path)


@functools.lru_cache(maxsize=_REMEMBERED)
def checked_name(name: str) -> str:
    """Returns the name. ValueError: none may be called so, with the way out."""
    if "/" in name or ".." in name:
        instead = name.replace("/", "_")
        while ".." in instead:
            instead = instead.replace("..", "._")
        raise ValueError(
            f"the name {name!r} has a '/' or '..', which no name may have: use another key, as {instead!r}"
        )
    if not name or len(name.encode()) > _MOST_BYTES:
        raise ValueError(f"the name {name[:80]!r} is empty, or has more than {_MOST_BYTES} bytes: use another key")
    if any(ord(one) < ord(" ") or one == _DELETE for one in name):
        raise ValueError(f"the name {name!r} has a control character: use another key")
    if name.startswith(RESERVED):
        raise ValueError(f"the name {name!r} begins as those of the package itself, {RESERVED!r}: use another key")
    return name
