"""Tables and verdicts of the comparison across hosts, as text."""

from comparison import fabric_goals, goals, results, tables, volumes
from comparison.fabric_series import ADAPTIVE, BOUND, RECKONED, SERIES, STATIC_RING
from comparison.tables import show_number, show_size

_HEAD = (f"# {'size':>8}  {'series':<12}{'time us':>12}{'algbw':>10}{'busbw':>10}{'of bound':>10}"
         f"{'of peer':>10}{'of ring':>10}")


def title(record, cell):
    """The line above a table."""
    fabric = record["fabric"]
    hosts = list(dict.fromkeys(fabric["host_of_rank"]))
    places = (f"{len(hosts)} hosts" if len(hosts) > 1 else "one host") + f" of {fabric['name']}"
    return (f"# {cell['collective']}, {cell['ranks']} ranks on {places} "
            f"({', '.join(fabric['host_of_rank'])}), float32; {record['statistic']} of "
            f"{record['rounds']} rounds")


def _share(cell, series, other, pick):
    ratio = None if series == other else results.ratio(cell, series, other, pick)
    return show_number(ratio.value) if ratio else "-"


def _series_row(cell, series, pick):
    if series in cell["errors"]:
        return f"{'failed':>12}"
    time_us = results.time_of(cell, series, pick)
    algbw = results.bandwidth(cell, series, pick)
    if series in RECKONED:
        kept = {BOUND, series} & set(cell["times_us"])  # it is compared with nothing else
        cell = {**cell, "times_us": {name: cell["times_us"][name] for name in kept}}
    busbw = algbw * volumes.bus_factor(cell["collective"], cell["ranks"])
    peer = results.best_peer(cell, pick)
    return (f"{show_number(time_us):>12}{algbw:>10.4f}{busbw:>10.4f}"
            f"{_share(cell, series, BOUND, pick):>10}"
            f"{_share(cell, series, peer, pick):>10}{_share(cell, series, STATIC_RING, pick):>10}")


def rows(record, cell):
    """A cell's lines: one for each series that was measured or failed."""
    mark = "~" if results.unsteady(cell) else " "
    lines = []
    for series in SERIES:
        if series not in cell["times_us"] and series not in cell["errors"]:
            continue
        size = show_size(cell["size"]) if not lines else ""
        lines.append(f"  {size:>8}{mark if not lines else ' '} {series:<12}"
                     + _series_row(cell, series, record["statistic"]))
    return lines


class Printer:
    """Prints rows as they come, with a head wherever a table begins."""

    def __init__(self, record, write):
        self._record = record
        self._write = write
        self._collective = None

    def add(self, cell):
        if cell["collective"] != self._collective:
            self._collective = cell["collective"]
            for line in ("", title(self._record, cell), _HEAD):
                self._write(line)
        for line in rows(self._record, cell) + tables.notes(cell):
            self._write(line)


def _demand_row(demand, cell, pick):
    ratio = demand.measured(cell, pick)
    peer = f" ({results.best_peer(cell, pick)})" if demand.of == fabric_goals.PEER and ratio else ""
    value = f"{show_number(ratio.value)}{peer}" if ratio else "-"
    return f"  {demand.text():<24}{value:<20}{fabric_goals.judge(demand, cell, pick)}"


def summary(record):
    """Whether the goals hold, demand by demand: lines."""
    pick = record["statistic"]
    lines = []
    for (collective, ranks), cells in tables.groups(record) if ADAPTIVE in record["series"] else []:
        found = [(cell, demand) for cell in cells
                 for demand in fabric_goals.demands(record["fabric"], cell)]
        if not found:
            continue
        lines += ["", f"# goals: {collective}, {ranks} ranks"]
        last = None
        for cell, demand in found:
            size = show_size(cell["size"]) if cell is not last else ""
            lines.append(f"  {size:>12}{_demand_row(demand, cell, pick)}")
            last = cell
        verdicts = [fabric_goals.judge(demand, cell, pick) for cell, demand in found]
        lines.append(f"# {ADAPTIVE}: {goals.count(verdicts)}")
    return lines + [""] + tables.quietness(record)
