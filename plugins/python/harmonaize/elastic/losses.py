"""Which ranks are gone by the sentences of the library's errors.

A daemon knows of ranks on other hosts only what it is told, and may not know that one of them has left. The error that
ended a communicator names the rank at all hosts, and so does one that refuses a shrink because of another rank.
"""

from __future__ import annotations

import re

# Sentences that name a rank which cannot come back. Others name ranks that are there, such as one that shrinks.
_GONE = re.compile(r"\brank (\d{1,9}) (?:\(process \d+\) )?(?:died|is lost|is gone|has left|aborted|gave up|exited)\b")


def named_in(text: str, size: int, own: int) -> set[int]:
    """Returns the ranks that the sentence says are gone, of a communicator of `size` ranks, without the caller's."""
    named = {int(number) for number in _GONE.findall(text)}
    return {rank for rank in named if rank < size and rank != own}
