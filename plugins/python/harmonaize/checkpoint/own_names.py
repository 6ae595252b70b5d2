"""Names of the objects that the package itself puts into a checkpoint."""

from __future__ import annotations

from harmonaize.checkpoint.names import RESERVED

_VALUES = f"{RESERVED}values."
_PLANS = f"{RESERVED}dcp."
_PICKLES = f"{RESERVED}pickles."


def values_name(rank: int) -> str:
    """Returns the name of the object with a rank's plain values."""
    return f"{_VALUES}{rank}"


def plan_name(rank: int) -> str:
    """Returns the name of the object that says what torch.distributed.checkpoint knew of a rank's items."""
    return f"{_PLANS}{rank}"


def pickle_name(rank: int, name: str) -> str:
    """Returns the name of the object with a value that only torch.load reads, as a rank has saved it."""
    return f"{_PICKLES}{rank}.{name}"


def pickled(name: str) -> tuple[int, str] | None:
    """Returns the rank and the value's name of such an object; None: it is another object."""
    digits, _, value = name.removeprefix(_PICKLES).partition(".")
    return (int(digits), value) if name.startswith(_PICKLES) and digits.isascii() and digits.isdigit() else None


def rank_of_values(name: str) -> int | None:
    """Returns the rank whose plain values an object has; None: it is another object."""
    return _rank(name, _VALUES)


def rank_of_plan(name: str) -> int | None:
    """Returns the rank whose plan an object has; None: it is another object."""
    return _rank(name, _PLANS)


def _rank(name: str, prefix: str) -> int | None:
    digits = name.removeprefix(prefix)
    return int(digits) if name.startswith(prefix) and digits.isascii() and digits.isdigit() else None
