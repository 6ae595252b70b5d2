"""The comparison on one host: see the program `compare`."""

import contextlib

from comparison import machine, measurement, options as command_line, series as catalogue, tables
from comparison.programs import Daemon, Program

PROGRAM = "compare"
OURS = catalogue.OURS
parse = command_line.parse
public_command = command_line.public_command
Printer = tables.Printer
summary = tables.summary


class HostTeam(measurement.Team):
    """All libraries' ranks on this host."""

    def __init__(self, options, places, ranks, daemon, folder):
        super().__init__(options, ranks)
        self._places = places
        self._daemon = daemon
        self._folder = folder

    def library_of(self, name):
        return catalogue.library_of(name)

    def ways_of(self, name):
        return catalogue.ways_of(name)

    def make_program(self, library):
        environment = self._daemon.environment() if library == "harmonaize" else None
        return Program(lambda folder: catalogue.command(library, self._places, self.ranks, folder),
                       self.ranks, self._folder, environment)


def describe(options):
    """What the record says beside what every comparison's does."""
    return {"versions": machine.versions(_places(options))}


def accepts(record):
    """Whether a kept record is of this comparison."""
    return "fabric" not in record


def _places(options):
    return catalogue.Places(options.programs, options.sizes[-1], options.realtime)


def run(options, record, folder, report):
    """Generates the list of series, then the cells in the order of ranks, collectives and sizes."""
    del record
    places = _places(options)
    names = measurement.available(
        options.series, lambda name: catalogue.missing(catalogue.library_of(name), places), report)
    yield names
    with contextlib.ExitStack() as cleaning:
        daemon = None
        if any(catalogue.library_of(name) == "harmonaize" for name in names):
            prefix = ["chrt", "-f", "1"] if options.realtime else []
            daemon = Daemon(options.daemon, places.path("harmonaized"), prefix, folder)
            cleaning.callback(daemon.stop)
        for ranks in options.ranks:
            team = HostTeam(options, places, ranks, daemon, folder)
            yield from measurement.run_team(team, names, options, report)
