"""Which step a checkpoint of torch.distributed.checkpoint is."""

from __future__ import annotations

import os
import re
import typing

_DIGITS_AT_END = re.compile(r"(\d+)$")


def step_of_id(checkpoint_id: str | os.PathLike[str] | None) -> int | None:
    """Returns the number at the end of a checkpoint's id, such as 'step-1000' or '/checkpoints/1000'; None: it has
    none.
    """
    if checkpoint_id is None:
        return None
    found = _DIGITS_AT_END.search(os.fspath(checkpoint_id).rstrip("/"))
    return None if found is None else int(found[1])


def step_of_state(state: typing.Mapping[str, typing.Any]) -> int | None:
    """Returns the number of steps that a state has under 'step'; None: it has none there."""
    step = state.get("step")
    return step if type(step) is int and step >= 0 else None
