"""Takes the measurements: rounds over all series, so that what disturbs one disturbs all alike."""

import contextlib
import statistics

from comparison import machine
from comparison.programs import RunError

# Operations timed together, by size: so many that starting and stopping the clock, and the ranks'
# leaving a barrier one after the other, weigh nothing, nor does a moment's interruption.
_ITERATIONS = [(1 << 10, 100000), (8 << 10, 20000), (64 << 10, 5000), (1 << 20, 1000),
               (16 << 20, 50), (1 << 62, 8)]
# How many tell about how long an operation takes, though the first ones of a cell may be slow; and
# the share of the budget in which more of them tell it well.
_FEW = 20
_PROBE_SHARE = 0.1
# Of several ways those that are so many times as slow as the fastest are not followed up. An
# interruption of the probe must not rule out a good one.
_HOPELESS = 3


def most_iterations(size):
    return next(iterations for limit, iterations in _ITERATIONS if size <= limit)


def choose_iterations(size, probed_us, budget_s, fewest, fixed=0):
    """The same for all series, but for those so slow that it would take longer than the budget."""
    if fixed:
        return fixed
    return max(fewest, min(most_iterations(size), int(budget_s * 1e6 / probed_us)))


def rotated(items, by):
    """Nobody is always first, with the caches of the last cell, or always behind the same one."""
    return items[by % len(items):] + items[:by % len(items)] if items else []


class Team:
    """The programs of all libraries for one number of ranks. What starts them is for those to say
    who inherit."""

    def __init__(self, options, ranks):
        self.ranks = ranks
        self._options = options
        self._programs = {}

    def library_of(self, name):
        """Which program measures a series."""
        return name

    def ways_of(self, name):
        """The ways of a series, as the requests name them; the fastest counts."""
        del name
        return ["-"]

    def make_program(self, library):
        """Starts a library's ranks: a Program, or None where it needs none."""
        raise NotImplementedError

    def warmup_for(self, iterations):
        return max(1, iterations // 10)

    def begin_round(self):
        """Comes before each round's measurements."""

    def start(self, name):
        """Starts a series' ranks unless they run."""
        library = self.library_of(name)
        if library not in self._programs:
            self._programs[library] = self.make_program(library)

    def measure(self, name, cell, iterations, way):
        """Microseconds an operation, or None where the series has no such operation."""
        self.start(name)
        try:
            return self._programs[self.library_of(name)].measure(
                cell["collective"], cell["size"], iterations, self.warmup_for(iterations), way,
                self._options.timeout)
        except RunError:
            self._programs.pop(self.library_of(name)).stop()
            raise

    def stop(self):
        programs, self._programs = self._programs, {}
        for program in filter(None, programs.values()):
            program.stop()


def _probe(team, name, cell, options):
    """Finds out whether a series can do the cell, and how fast: {(series, way): iterations}."""
    few = max(1, min(_FEW, most_iterations(cell["size"]) // 8))
    probed = {}
    for way in team.ways_of(name):
        time_us = team.measure(name, cell, few, way)
        if time_us is None:
            continue
        more = choose_iterations(cell["size"], time_us, _PROBE_SHARE * options.budget,
                                 options.fewest)
        again = few == _FEW and more > few  # not the sizes whose buffers cost more than the probe
        probed[way] = team.measure(name, cell, more, way) if again else time_us
    return {(name, way): choose_iterations(cell["size"], time_us, options.budget, options.fewest,
                                           options.iterations)
            for way, time_us in probed.items() if time_us <= _HOPELESS * min(probed.values())}


@contextlib.contextmanager
def _noting(cell, name):
    """An error of a series is its cell's, and the others go on."""
    try:
        yield
    except RunError as error:
        cell["errors"][name] = str(error)


def measure_cell(team, names, collective, size, options):
    """Measures one cell; results.py says what it looks like."""
    cell = {"collective": collective, "ranks": team.ranks, "size": size, "times_us": {},
            "iterations": {}, "way": {}, "errors": {}}
    plan = {}
    for name in names:
        with _noting(cell, name):
            plan.update(_probe(team, name, cell, options))
    load = machine.Load()
    times = {key: [] for key in plan}
    for turn in range(options.rounds):
        team.begin_round()
        for name, way in rotated(list(plan), turn):
            if name in cell["errors"]:
                continue
            with _noting(cell, name):
                times[name, way].append(team.measure(name, cell, plan[name, way], way))
    cell["load"] = load.since_last()
    for name in names:
        _keep_fastest(cell, name, plan, times, len(team.ways_of(name)) > 1)
    return cell


def _keep_fastest(cell, name, plan, times, several):
    ways = [way for series, way in plan if series == name]
    if name in cell["errors"] or not ways:
        return
    fastest = min(ways, key=lambda way: statistics.median(times[name, way]))
    cell["times_us"][name] = [round(time_us, 4) for time_us in times[name, fastest]]
    cell["iterations"][name] = plan[name, fastest]
    if several:
        cell["way"][name] = fastest


def _startable(team, names, report):
    """The series whose library starts; `report(text)` is told of the others."""
    failed = set()
    chosen = []
    for name in names:
        library = team.library_of(name)
        if library not in failed:
            try:
                team.start(name)
            except RunError as error:
                failed.add(library)
                report(f"{name} is left out: {error}")
        if library not in failed:
            chosen.append(name)
    return chosen


def available(names, reason_against, report):
    """The series that can be measured here; `report(text)` is told of the others, and why."""
    chosen = []
    for name in names:
        reason = reason_against(name)
        if reason:
            report(f"{name} is left out: {reason}")
        else:
            chosen.append(name)
    return chosen


def run_team(team, names, options, report):
    """Generates the cells of one team, in the order of collectives and sizes."""
    with contextlib.ExitStack() as stopping:
        stopping.callback(team.stop)
        started = _startable(team, names, report)
        for collective in options.collectives:
            for size in options.sizes:
                cell = measure_cell(team, started, collective, size, options)
                # None of either: so small that ranks have no element of their own.
                if cell["times_us"] or cell["errors"]:
                    yield cell
