"""What the times say. A cell is one collective, number of ranks and size, as measurement.py makes
it and the JSON file keeps it:

    {"collective", "ranks", "size",            bytes of the larger buffer
     "times_us": {series: [one a round]},
     "iterations": {series: operations timed together},
     "way": {series: the fastest of its ways}, where it has several
     "errors": {series: why it has no times},
     "load": {"others", "steal"}}              shares of the processors
"""

import statistics
from dataclasses import dataclass

from comparison.series import BOUND, PEERS

# Times that scatter more than this between the rounds, or a machine that others use more than this,
# make a cell unsteady: it is marked, and its numbers are not for keeping.
STEADY_SPREAD = 0.25
QUIET_SHARE = 0.05

PICKS = {"median": statistics.median, "best": min}


def quartiles(values):
    """The first and the third; of few values, the nearest that there are."""
    ordered = sorted(values)
    quarter = (len(ordered) - 1) // 4
    return ordered[quarter], ordered[len(ordered) - 1 - quarter]


def spread(times):
    """How far the middle half of the times lies apart, as a share of the median."""
    low, high = quartiles(times)
    return (high - low) / statistics.median(times)


def time_of(cell, series, pick):
    """Microseconds an operation, or None."""
    times = cell["times_us"].get(series)
    return PICKS[pick](times) if times else None


def bandwidth(cell, series, pick):
    """GB/s (10^9 bytes of the larger buffer / time), or None."""
    time_us = time_of(cell, series, pick)
    return cell["size"] / time_us / 1e3 if time_us else None


def best_peer(cell, pick):
    """The fastest peer's name, or None."""
    times = {peer: time_of(cell, peer, pick) for peer in PEERS if cell["times_us"].get(peer)}
    return min(times, key=times.get) if times else None


@dataclass(frozen=True)
class Ratio:
    """How many times as fast, and where the middle half of the rounds lies, each round by itself:
    what disturbs the machine for a while disturbs both sides of a round."""
    value: float
    low: float
    high: float


def ratio(cell, series, other, pick):
    """How many times as fast as `other` `series` is, or None when one of them was not measured."""
    ours, theirs = cell["times_us"].get(series), cell["times_us"].get(other)
    if not ours or not theirs:
        return None
    low, high = quartiles([b / a for a, b in zip(ours, theirs)])
    value = PICKS[pick](theirs) / PICKS[pick](ours)
    return Ratio(value, min(low, value), max(high, value))


def peer_ratio(cell, series, pick):
    return ratio(cell, series, best_peer(cell, pick), pick)


def bound_ratio(cell, series, pick):
    return ratio(cell, series, BOUND, pick)


def unsteady(cell):
    """What makes the cell's numbers doubtful: a list of sentences."""
    reasons = [f"{name} scatters by {spread(times):.0%}"
               for name, times in cell["times_us"].items()
               if len(times) > 1 and spread(times) > STEADY_SPREAD]
    load = cell.get("load", {})
    if load.get("others", 0) > QUIET_SHARE:
        reasons.append(f"others used {load['others']:.0%} of the processors")
    if load.get("steal", 0) > QUIET_SHARE:
        reasons.append(f"the hypervisor took {load['steal']:.0%} of the processors")
    return reasons
