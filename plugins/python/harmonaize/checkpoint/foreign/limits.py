"""How much a pickle may cost."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds for one pickle. The defaults hold a DCP checkpoint of some 300,000 chunks; a larger one needs larger
    ones.
    """

    bytes: int = 256 << 20
    """Largest pickle, in bytes. It is held in memory."""

    work: int = 128 << 20
    """Work that one pickle may make, in operations; making a container counts as several. A pickle cannot repeat
    itself, so this bounds its time to minutes, and what it allocates to some 2 GiB.
    """

    depth: int = 100
    """Deepest nesting of what is read. Programs that walk through it call themselves once a level."""

    number_bytes: int = 64
    """Longest whole number, in bytes: states of random generators have some of 16. Longer ones take long to print."""

    tuple_keys: int = 10_000
    """Most keys of dictionaries that are tuples: a stranger can find many with one hash, and each is compared with
    all.
    """


DEFAULT_LIMITS = Limits()
"""Bounds that real checkpoints do not come near."""
