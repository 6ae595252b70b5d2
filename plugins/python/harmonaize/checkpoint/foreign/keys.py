"""Which objects of a pickle may be keys: those that no stranger can make slow to find."""

from __future__ import annotations

from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.stand_ins import EnumMember, KnownClass, Record, TorchConstant

# Range of whole numbers that may be keys: Python finds numbers by a remainder of 61 bits, so that larger ones can be
# made that all have the same, and each would be compared with all.
_RANGE = range(-(1 << 63), 1 << 64)

# A record is found by where it lies in memory.
_PLAIN = frozenset({str, bool, float, bytes, type(None), KnownClass, EnumMember, TorchConstant, Record})

# Most elements of a tuple that is a key. Tuples of tuples could take for ever to hash.
_LONGEST_TUPLE = 16


def is_plain_key(key: object) -> bool:
    """Returns whether an object may be a key by itself."""
    return key in _RANGE if type(key) is int else type(key) in _PLAIN


def check_plain_key(key: object) -> None:
    """Checks a key. ForeignFormatError: it may be none."""
    if not is_plain_key(key):
        raise ForeignFormatError(f"a key is of type {quoted(type(key).__name__)}, or a number of more than 64 bits")


def check_tuple_key(key: tuple[object, ...]) -> None:
    """Checks a key that is a tuple. ForeignFormatError: it may be none."""
    if len(key) > _LONGEST_TUPLE:
        raise ForeignFormatError(f"a key is a tuple of more than {_LONGEST_TUPLE} elements")
    for part in key:
        check_plain_key(part)
