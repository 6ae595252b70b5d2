"""What the project demands of a cell, and whether it holds."""

from dataclasses import dataclass

from comparison.results import bound_ratio, peer_ratio

_KIB = 1 << 10
_MIB = 1 << 20


@dataclass(frozen=True)
class Goal:
    """`peer` times as fast as the fastest peer, at least; a time of at most 0.5x is 2 times as
    fast. `bound`: this share of what the machine allows, at least; None for any."""
    peer: float
    bound: float = None


PARITY = Goal(1.0)

# All-reduce, 2 ranks, float32, sum: (first size, last size, goal). Other sizes have parity.
_ALL_REDUCE_OF_TWO = {
    "registered": [(8, 2 * _KIB, Goal(2.0)), (8 * _KIB, 512 * _KIB, Goal(4.0)),
                   (1 * _MIB, 8 * _MIB, Goal(4.0)), (32 * _MIB, 1 << 62, Goal(2.5, 0.85))],
    "heap": [(8, 2 * _KIB, Goal(2.0)), (8 * _KIB, 512 * _KIB, Goal(1.5)),
             (1 * _MIB, 8 * _MIB, Goal(1.2)), (32 * _MIB, 1 << 62, Goal(1.2))],
}


def goal_for(collective, ranks, size, series):
    """What is demanded of one of our series, or None where nothing is."""
    if ranks not in (2, 4):
        return None
    if collective == "all_reduce" and ranks == 2:
        for first, last, goal in _ALL_REDUCE_OF_TWO.get(series, []):
            if first <= size <= last:
                return goal
    return PARITY


HOLDS, MISSES, UNSURE, UNKNOWN = "holds", "MISSES", "unsure", "-"


def verdict(ratio, wanted):
    """On one demand: that a Ratio is `wanted` at least."""
    if ratio is None:
        return UNKNOWN
    if ratio.low < wanted <= ratio.high:
        return UNSURE
    return HOLDS if ratio.value >= wanted else MISSES


def judge(cell, series, pick):
    """HOLDS or MISSES; UNSURE when the rounds disagree; UNKNOWN without a goal or without the times
    to judge by."""
    goal = goal_for(cell["collective"], cell["ranks"], cell["size"], series)
    if goal is None:
        return UNKNOWN
    verdicts = [verdict(peer_ratio(cell, series, pick), goal.peer)]
    if goal.bound is not None:
        verdicts.append(verdict(bound_ratio(cell, series, pick), goal.bound))
    return next((bad for bad in (MISSES, UNKNOWN, UNSURE) if bad in verdicts), HOLDS)


def count(verdicts):
    """How many there are of each, in words."""
    counts = [(verdicts.count(kind), word) for kind, word in (
        (HOLDS, "hold"), (MISSES, "miss"), (UNSURE, "unsure"), (UNKNOWN, "not judged"))]
    return ", ".join(f"{number} {word}" for number, word in counts if number)
