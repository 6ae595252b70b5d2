"""What the project demands of Harmonaize across hosts, and whether it holds."""

import statistics
from dataclasses import dataclass

from comparison import goals, results
from comparison.fabric_series import ADAPTIVE, BOUND, FIXED_RING, PREDICTED, STATIC_RING
from comparison.series import IN_TURNS

_MIB = 1 << 20
PEER = "the best peer"
# Predicted and measured times are to differ by no more than this factor.
_PREDICTED_WITHIN = 1.2
# Sizes below are judged by how long an operation takes.
_LATENCY_ENDS = 64 << 10
# Below this share of what its links state a fabric is as fast as the machine, not as its links.
_SHAPED_SHARE = 0.8


@dataclass(frozen=True)
class Demand:
    """`ratio` times as fast as `of`, at least: a series, or the best peer."""
    of: str
    ratio: float

    def text(self):
        if self.of == BOUND:
            return f"{self.ratio:.0%} of the bound"
        if self.of == PREDICTED:
            return f"within {self.ratio - 1:.0%} of predicted"
        return f"{self.ratio:.1f}x {self.of}"

    def measured(self, cell, pick):
        """A Ratio, or None."""
        if self.of == PEER:
            return results.peer_ratio(cell, ADAPTIVE, pick)
        return results.ratio(cell, ADAPTIVE, self.of, pick)


def is_shaped(cell):
    """Whether links decide, or None where no transfer was measured."""
    payload = cell.get("payload_bytes_per_second")
    if not payload:
        return None
    return statistics.median(payload) >= _SHAPED_SHARE * cell["nominal_bytes_per_second"]


def crosses_racks(fabric):
    """Whether the ring in the order of the ranks changes racks wherever it leaves a host."""
    racks = [fabric["racks"][host] for host in dict.fromkeys(fabric["host_of_rank"])]
    return all(racks[i] and racks[i] != racks[i - 1] for i in range(len(racks)))


def demands(fabric, cell):
    """What is demanded in a cell of a record with this "fabric": a list."""
    collective, size = cell["collective"], cell["size"]
    hosts = len(set(fabric["host_of_rank"]))
    if hosts == 1:
        return []  # compare has the goals of one host
    shaped = is_shaped(cell)
    if collective in IN_TURNS.values() and size < _LATENCY_ENDS:
        return []  # how long one takes is what is demanded of: the same in turns
    wanted = [Demand(PEER, 1.3 if hosts == 2 and shaped is False and size >= _MIB else 1.0)]
    if shaped and PREDICTED in cell["times_us"]:
        wanted.append(Demand(PREDICTED, _PREDICTED_WITHIN))
    if size != 64 * _MIB or shaped is False:
        return wanted
    if collective in ("all_reduce", "all_gather", "reduce_scatter", "broadcast"):
        wanted.append(Demand(BOUND, 0.9))
    if (fabric["name"] == "two-racks" and collective in ("all_reduce", "all_gather") and hosts == 4
            and crosses_racks(fabric)):
        wanted += [Demand(STATIC_RING, 2.6), Demand(FIXED_RING, 1.4)]
    return wanted


def judge(demand, cell, pick):
    """As goals.judge, of one demand."""
    measured = demand.measured(cell, pick)
    if demand.of != PREDICTED or measured is None:
        return goals.verdict(measured, demand.ratio)
    inverse = results.Ratio(1 / measured.value, 1 / measured.high, 1 / measured.low)
    verdicts = [goals.verdict(ratio, 1 / demand.ratio) for ratio in (measured, inverse)]
    return next((bad for bad in (goals.MISSES, goals.UNSURE) if bad in verdicts), goals.HOLDS)
