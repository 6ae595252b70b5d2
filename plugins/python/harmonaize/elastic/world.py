"""Who the ranks of a training are at present."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class World:
    """A rank's place among the ranks. `epoch` counts the memberships of the job, from 1.

    `first_size` is the number of ranks with which this process has begun, and `one_host` says whether all ranks share
    this host. The daemon knows the communicator of all ranks by the name `communicator`.
    """

    rank: int
    size: int
    epoch: int
    first_size: int
    one_host: bool
    communicator: str = ""
