"""Takes the measurements: rounds over all series, so that what disturbs one disturbs all alike."""

import contextlib
import statistics

from comparison import machine, series as catalogue
from comparison.programs import Daemon, Program, RunError

# Operations timed together, by size: so many that starting and stopping the clock, and the ranks'
# leaving a barrier one after the other, weigh nothing, nor does a moment's interruption.
_ITERATIONS = [(1 << 10, 100000), (8 << 10, 20000), (64 << 10, 5000), (1 << 20, 1000),
               (16 << 20, 50), (1 << 62, 8)]
_FEWEST = 3
# How many tell about how long an operation takes, though the first ones of a cell may be slow; and
# the share of the budget in which more of them tell it well.
_FEW = 20
_PROBE_SHARE = 0.1
# Of several ways those that are so many times as slow as the fastest are not followed up. An
# interruption of the probe must not rule out a good one.
_HOPELESS = 3


def most_iterations(size):
    return next(iterations for limit, iterations in _ITERATIONS if size <= limit)


def choose_iterations(size, probed_us, budget_s, fixed=0):
    """The same for all series, but for those so slow that it would take longer than the budget."""
    if fixed:
        return fixed
    return max(_FEWEST, min(most_iterations(size), int(budget_s * 1e6 / probed_us)))


def warmup_for(iterations):
    return max(1, iterations // 10)


def rotated(items, by):
    """Nobody is always first, with the caches of the last cell, or always behind the same one."""
    return items[by % len(items):] + items[:by % len(items)] if items else []


class Team:
    """The programs of all libraries for one number of ranks."""

    def __init__(self, options, places, ranks, daemon, folder):
        self._options = options
        self._places = places
        self._ranks = ranks
        self._daemon = daemon
        self._folder = folder
        self._programs = {}

    def start(self, library):
        """Starts a library's ranks unless they run."""
        if library in self._programs:
            return
        environment = self._daemon.environment() if library == "harmonaize" else None
        self._programs[library] = Program(
            lambda folder: catalogue.command(library, self._places, self._ranks, folder),
            self._ranks, self._folder, environment)

    def measure(self, library, cell, iterations, way):
        self.start(library)
        try:
            return self._programs[library].measure(cell["collective"], cell["size"], iterations,
                                                   warmup_for(iterations), way,
                                                   self._options.timeout)
        except RunError:
            self._programs.pop(library).stop()
            raise

    def stop(self):
        for program in self._programs.values():
            program.stop()
        self._programs = {}


def _probe(team, name, cell, options):
    """Finds out whether a series can do the cell, and how fast: {(series, way): iterations}."""
    library = catalogue.library_of(name)
    few = max(1, min(_FEW, most_iterations(cell["size"]) // 8))
    probed = {}
    for way in catalogue.ways_of(name):
        time_us = team.measure(library, cell, few, way)
        if time_us is None:
            continue
        more = choose_iterations(cell["size"], time_us, _PROBE_SHARE * options.budget)
        again = few == _FEW and more > few  # not the sizes whose buffers cost more than the probe
        probed[way] = team.measure(library, cell, more, way) if again else time_us
    return {(name, way): choose_iterations(cell["size"], time_us, options.budget,
                                           options.iterations)
            for way, time_us in probed.items() if time_us <= _HOPELESS * min(probed.values())}


@contextlib.contextmanager
def _noting(cell, name):
    """An error of a series is its cell's, and the others go on."""
    try:
        yield
    except RunError as error:
        cell["errors"][name] = str(error)


def measure_cell(team, names, collective, ranks, size, options):
    """Measures one cell; results.py says what it looks like."""
    cell = {"collective": collective, "ranks": ranks, "size": size, "times_us": {},
            "iterations": {}, "way": {}, "errors": {}}
    plan = {}
    for name in names:
        with _noting(cell, name):
            plan.update(_probe(team, name, cell, options))
    load = machine.Load()
    times = {key: [] for key in plan}
    for turn in range(options.rounds):
        for name, way in rotated(list(plan), turn):
            if name in cell["errors"]:
                continue
            with _noting(cell, name):
                times[name, way].append(
                    team.measure(catalogue.library_of(name), cell, plan[name, way], way))
    cell["load"] = load.since_last()
    for name in names:
        _keep_fastest(cell, name, plan, times)
    return cell


def _keep_fastest(cell, name, plan, times):
    ways = [way for series, way in plan if series == name]
    if name in cell["errors"] or not ways:
        return
    fastest = min(ways, key=lambda way: statistics.median(times[name, way]))
    cell["times_us"][name] = [round(time_us, 4) for time_us in times[name, fastest]]
    cell["iterations"][name] = plan[name, fastest]
    if len(catalogue.ways_of(name)) > 1:
        cell["way"][name] = fastest


def _startable(team, names, report):
    """The series whose library starts; `report(text)` is told of the others."""
    failed = set()
    chosen = []
    for name in names:
        library = catalogue.library_of(name)
        if library not in failed:
            try:
                team.start(library)
            except RunError as error:
                failed.add(library)
                report(f"{name} is left out: {error}")
        if library not in failed:
            chosen.append(name)
    return chosen


def available(names, places, report):
    """The series that can be measured here; `report(text)` is told of the others, and why."""
    chosen = []
    for name in names:
        reason = catalogue.missing(catalogue.library_of(name), places)
        if reason:
            report(f"{name} is left out: {reason}")
        else:
            chosen.append(name)
    return chosen


def run(options, places, folder, report):
    """Generates the list of series, then the cells in the order of ranks, collectives and sizes."""
    names = available(options.series, places, report)
    yield names
    with contextlib.ExitStack() as cleaning:
        daemon = None
        if any(catalogue.library_of(name) == "harmonaize" for name in names):
            prefix = ["chrt", "-f", "1"] if options.realtime else []
            daemon = Daemon(options.daemon, places.path("harmonaized"), prefix, folder)
            cleaning.callback(daemon.stop)
        for ranks in options.ranks:
            team = Team(options, places, ranks, daemon, folder)
            with contextlib.ExitStack() as stopping:
                stopping.callback(team.stop)
                started = _startable(team, names, report)
                for collective in options.collectives:
                    for size in options.sizes:
                        cell = measure_cell(team, started, collective, ranks, size, options)
                        # None of either: so small that ranks have no element of their own.
                        if cell["times_us"] or cell["errors"]:
                            yield cell
