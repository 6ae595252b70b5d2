"""Tables and verdicts as text."""

from comparison import goals, results
from comparison.series import BOUND, OURS, SERIES

# Above this a size's bandwidth says more than its time.
_LATENCY_LIMIT = 8 << 10
_SHORT = {"registered": "reg", "heap": "heap", "stream": "stream"}


def show_size(size):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def groups(record):
    """The cells of each table: [((collective, ranks), [cell])], in the order measured."""
    found = {}
    for cell in record["results"]:
        found.setdefault((cell["collective"], cell["ranks"]), []).append(cell)
    return list(found.items())


def show_number(number):
    """Three digits, or more where they are whole."""
    if number is None:
        return "-"
    return f"{number:.3f}" if number < 1 else f"{number:.2f}" if number < 100 else f"{number:.0f}"


def _ratio_columns(names):
    columns = []
    for other, heading in ((results.peer_ratio, "peer"), (results.bound_ratio, "bound")):
        columns += [(f"{_SHORT[ours]}/{heading}", ours, other) for ours in OURS if ours in names]
    return columns


def _series(record):
    return [name for name in SERIES if name in record["series"]]


def head(record, latency):
    names = _series(record)
    unit = "us" if latency else "GB/s"
    cells = [f"{'size':>8}"] + [f"{name:>11}" for name in names]
    cells += [f"{heading:>11}" for heading, _, _ in _ratio_columns(names)]
    return f"# {unit:>4}{''.join(cells)}  best peer"


def row(record, cell):
    pick = record["statistic"]
    latency = cell["size"] <= _LATENCY_LIMIT
    value = results.time_of if latency else results.bandwidth
    cells = [f"{show_size(cell['size']):>8}"]
    for name in _series(record):
        text = "failed" if name in cell["errors"] else show_number(value(cell, name, pick))
        cells.append(f"{text:>11}")
    for _, ours, compare in _ratio_columns(_series(record)):
        ratio = compare(cell, ours, pick)
        cells.append(f"{show_number(ratio.value) if ratio else '-':>11}")
    mark = "  ~" if results.unsteady(cell) else ""
    return f"      {''.join(cells)}  {results.best_peer(cell, pick) or '-'}{mark}"


def notes(cell):
    """Lines below a row: what failed, and what makes it doubtful."""
    errors = [f"#   {name} failed: {error}" for name, error in cell["errors"].items()]
    doubts = results.unsteady(cell)
    return errors + ([f"#   ~ {'; '.join(doubts)}"] if doubts else [])


def title(record, collective, ranks):
    return (f"# {collective}, {ranks} ranks, float32; {record['statistic']} of {record['rounds']} "
            "rounds")


class Printer:
    """Prints rows as they come, with a head wherever a table begins."""

    def __init__(self, record, write):
        self._record = record
        self._write = write
        self._last = None

    def add(self, cell):
        table = (cell["collective"], cell["ranks"], cell["size"] <= _LATENCY_LIMIT)
        if self._last is None or table[:2] != self._last[:2]:
            self._write("")
            self._write(title(self._record, *table[:2]))
        if table != self._last:
            self._write(head(self._record, table[2]))
        self._last = table
        self._write(row(self._record, cell))
        for note in notes(cell):
            self._write(note)


def _goal_text(goal):
    if goal is None:
        return "none"
    bound = f", {goal.bound:.0%} of bound" if goal.bound else ""
    return f">= {goal.peer:.1f}x{bound}"


def _goal_cells(cell, series, pick):
    goal = goals.goal_for(cell["collective"], cell["ranks"], cell["size"], series)
    ratio = results.peer_ratio(cell, series, pick)
    share = results.bound_ratio(cell, series, pick)
    measured = f"{show_number(ratio.value)}x" if ratio else "-"
    if goal and goal.bound and share:
        measured += f", {share.value:.0%}"
    return f"{measured:>13}{_goal_text(goal):>24}  {goals.judge(cell, series, pick):<8}"


def _count(record, cells, series):
    verdicts = [goals.judge(cell, series, record["statistic"]) for cell in cells]
    return f"{series}: {goals.count(verdicts)}"


def summary(record):
    """Whether the goals hold, cell by cell: lines."""
    ours = [name for name in OURS if name in record["series"]]
    lines = []
    for (collective, ranks), cells in groups(record) if ours else []:
        lines += ["", f"# goals: {collective}, {ranks} ranks; times as fast as the fastest peer"]
        lines.append(("# " + f"{'size':>12}" + "".join(
            f"{name:>13}{'goal':>24}  {'':<8}" for name in ours)).rstrip())
        for cell in cells:
            lines.append(f"  {show_size(cell['size']):>12}" + "".join(
                _goal_cells(cell, name, record["statistic"]) for name in ours).rstrip())
        lines += [f"# {_count(record, cells, name)}" for name in ours]
    return lines + [""] + quietness(record)


def quietness(record):
    """Whether the run may be kept: lines."""
    cells = record["results"]
    if not cells:
        return []
    others = max(cell["load"]["others"] for cell in cells)
    steal = max(cell["load"]["steal"] for cell in cells)
    doubtful = [cell for cell in cells if results.unsteady(cell)]
    busy = [cell for cell in cells
            if max(cell["load"].values()) > results.QUIET_SHARE]
    lines = ["# interrupted: cells are missing"] if record.get("interrupted") else []
    lines += [f"# machine: others used up to {others:.0%} of the processors, the hypervisor up to "
             f"{steal:.0%}; {len(doubtful)} of {len(cells)} rows are unsteady (~)"]
    if len(busy) * 10 > len(cells):
        lines.append("# THE MACHINE WAS BUSY: ratios may do, but do not keep these numbers")
    return lines


def machine_lines(record):
    """The machine in words."""
    told = record["machine"]
    pages = told["huge_pages"]
    lines = [
        f"{told['processors']} processors on {told['cores']} cores of {told['processor']}"
        + (", virtual" if told["virtual"] else "") + f"; {', '.join(told['caches'])}; "
        f"frequency governor: {told['frequency_governor']}",
        f"{told['memory_gib']} GiB of memory; {told['kernel']}",
        f"transparent huge pages: {pages['transparent']} (defrag {pages['transparent_defrag']}, "
        f"shared memory {pages['transparent_shared_memory']}); reserved: {pages['reserved']} of "
        f"{pages['reserved_size']}",
    ]
    return lines + [f"{name} {version}" for name, version in record["versions"].items()]


def report(record, make_printer=Printer, summarize=summary):
    """Everything, as Markdown."""
    lines = ["# Comparison", "", f"Made {record['time']} by", "", f"    {record['command']}", "",
             "on", ""]
    lines += [f"- {line}" for line in machine_lines(record)]
    lines += ["", "## Tables", "", "```"]
    printer = make_printer(record, lines.append)
    for cell in record["results"]:
        printer.add(cell)
    lines += ["```", "", "## Goals", "", "```", *summarize(record), "```"]
    return "\n".join(lines) + "\n"
