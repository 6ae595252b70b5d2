"""What a collective moves. Sizes are nccl-tests': bytes of a rank's larger buffer. `host_of_rank`
has the host of each rank."""

from comparison.series import IN_TURNS

_ELEMENT = 4  # bytes: float32, as in perf/compare/peer_work.h
# Their larger buffer has a block for each rank.
_IN_BLOCKS = {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"}


def unit_bytes(collective, ranks, size):
    """Bytes that the call's count stands for: a block, or the whole."""
    elements = size // _ELEMENT
    return elements // ranks * _ELEMENT if collective in _IN_BLOCKS else elements * _ELEMENT


def bus_factor(collective, ranks):
    """busbw / algbw, as nccl-tests defines them."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in _IN_BLOCKS else 1.0


def least_traffic(collective, host_of_rank, size):
    """Bytes that enter hosts at least, all together, whatever the algorithm. Root is rank 0, or any
    in turn: of the two that have turns it does not depend on that."""
    ranks = len(host_of_rank)
    hosts = {host: host_of_rank.count(host) for host in host_of_rank}
    if len(hosts) == 1:
        return 0
    at_root = hosts[host_of_rank[0]]
    units = {
        "all_reduce": len(hosts),
        "reduce": 1,
        "broadcast": len(hosts) - 1,
        "all_gather": sum(ranks - here for here in hosts.values()),
        "reduce_scatter": ranks,
        "alltoall": sum(here * (ranks - here) for here in hosts.values()),
        "gather": ranks - at_root,
        "scatter": ranks - at_root,
        "sendrecv": sum(host_of_rank[rank] != host_of_rank[rank - 1] for rank in range(ranks)),
    }[IN_TURNS.get(collective, collective)]
    return units * unit_bytes(collective, ranks, size)
