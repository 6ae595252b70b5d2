"""How much a pickle may cost."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds for one pickle. The defaults hold the description of a DCP checkpoint of 200,000 parts of tensors: 1,000
    tensors, each cut over 200 ranks. A larger one that is trusted needs larger bounds.
    """

    bytes: int = 256 << 20
    """Largest pickle, in bytes. It is held in memory."""

    work: int = 128 << 20
    """Most work for one pickle, in steps; a step takes some 16 bytes of memory. A pickle cannot repeat itself, so this
    bounds its memory to some 2 GiB, and its time to minutes.
    """

    depth: int = 100
    """Deepest nesting of what is read. Programs that walk through it call themselves once a level."""

    number_bytes: int = 64
    """Longest whole number, in bytes: states of random generators have some of 16. Longer ones take long to print."""

    tuple_keys: int = 10_000
    """Most keys of dictionaries that are tuples: a stranger can find many with one hash, and each is compared with all.
    """


DEFAULT_LIMITS = Limits()
"""Bounds that real checkpoints do not come near."""
