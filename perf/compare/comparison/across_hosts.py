"""The comparison across the hosts of a laboratory: see the program `fabric`."""

import contextlib
import json
import os

from comparison import (fabric_options, fabric_series as catalogue, fabric_tables, laboratory,
                        machine, measurement, volumes)
from comparison.laboratory import Laboratory, call
from comparison.programs import Program, RunError
from comparison.series import IN_TURNS, Places

PROGRAM = fabric_options.PROGRAM
OURS = catalogue.OURS
parse = fabric_options.parse
public_command = fabric_options.public_command
Printer = fabric_tables.Printer
summary = fabric_tables.summary

# Long enough for TCP to be at its rate, and not much in a round.
_TRANSFER_SECONDS = 0.3
# An operation of which less than this share of what has to cross the links did took another way.
# Small ones drown in what else is sent.
_CROSSING_SHARE = 0.9
_LEAST_CHECKED = 64 << 10


def describe(options):
    """What the record says beside what every comparison's does."""
    versions = machine.versions(_places(options))
    return {"versions": {name: version for name, version in versions.items()
                         if name in ("harmonaize", *catalogue.PEERS)}}


def accepts(record):
    """Whether a kept record is of this comparison."""
    return "fabric" in record


def _places(options):
    return Places(options.programs, options.sizes[-1])


class Planner:
    """What `harmonaize plan` says of a job on a fabric file."""

    def __init__(self, program, file, host_of_rank, costs):
        """`costs` as options."""
        self._command = [program, "plan", "--fabric", file, "--hosts", ",".join(host_of_rank),
                         "--out-of-place", "--json"]
        self._costs = costs
        self._ranks = len(host_of_rank)
        self._seconds_per_byte = {}
        self._predicted_us = {}

    def bound_us(self, collective, size):
        """What the links' stated rates allow; None where nothing has to cross them, or nothing can
        be planned (send and receive)."""
        if collective not in self._seconds_per_byte:
            self._seconds_per_byte[collective] = 0
            if collective != "sendrecv":
                plan = self._plan(collective)
                self._seconds_per_byte[collective] = plan["bound_seconds_per_byte"]
        unit = volumes.unit_bytes(collective, self._ranks, size)
        return self._seconds_per_byte[collective] * unit * 1e6 or None

    def predicted_us(self, collective, size):
        """What the planner thinks that its choice takes; None where nothing can be planned."""
        unit = volumes.unit_bytes(collective, self._ranks, size)
        if collective == "sendrecv" or not unit:
            return None
        if (collective, unit) not in self._predicted_us:
            plan = self._plan(collective, "--size", str(unit), *self._costs)
            self._predicted_us[collective, unit] = plan["sizes"][0]["plans"][0]["seconds"] * 1e6
        return self._predicted_us[collective, unit]

    def _plan(self, collective, *options):
        name = IN_TURNS.get(collective, collective)
        return json.loads(call([*self._command, "--collective", name, *options]))

    def carries_out(self, plan_file, collective):
        """Whether the plan of a file fits a collective."""
        try:
            self._plan(collective, "--policy", "fixed", "--plan-file", plan_file)
        except RunError:
            return False
        return True


class FabricTeam(measurement.Team):
    """The ranks of all series, each at the hosts of its laboratory."""

    def __init__(self, options, job, laboratories, planner, folder):
        super().__init__(options, len(job.host_of_rank))
        self._job = job
        self._laboratories = laboratories
        self._planner = planner
        self._folder = folder
        self._ring_file = os.path.join(folder, "ring.toml")
        self._far = _far_host(job.host_of_rank, laboratory.racks(laboratories.main.status()))
        self._way = options.buffers
        with open(self._ring_file, "w", encoding="utf-8") as file:
            file.write(_ring(options, job, laboratories.main))
        self._fits = {}

    def ways_of(self, name):
        return [self._way] if name in catalogue.OURS + catalogue.YARDSTICKS else ["-"]

    def warmup_for(self, iterations):
        # One takes longer than all that was to be spent; the probe has warmed the connections up.
        if iterations == 1 and not self._options.reconnect:
            return 0
        return super().warmup_for(iterations)

    def begin_round(self):
        if self._options.reconnect:
            self.stop()

    def make_program(self, library):
        if library in catalogue.RECKONED:
            return None
        configuration = os.path.join(self._folder, f"{library}.toml")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(catalogue.daemon_configuration(library, self._ring_file))
        lab = self._laboratories.of(library)
        try:
            return Program(lambda folder: catalogue.command(library, self._job, lab, folder,
                                                            configuration),
                           self.ranks, self._folder)
        except RunError as error:
            words = [] if library in catalogue.PEERS else lab.last_words(self._job.host_of_rank)
            raise RunError("; ".join([str(error), *words])) from None

    def measure(self, name, cell, iterations, way):
        if name in catalogue.RECKONED:
            return self._reckoned(name, cell)
        if name == catalogue.FIXED_RING and not self._ring_fits(cell["collective"]):
            return None
        if name in cell.setdefault("traffic", {}):
            return super().measure(name, cell, iterations, way)
        lab = self._laboratories.of(name)
        before = laboratory.bytes_into_hosts(lab.status())
        time_us = super().measure(name, cell, iterations, way)
        if time_us is not None:
            entered = laboratory.bytes_into_hosts(lab.status()) - before
            self._note_traffic(name, cell, entered / (iterations + self.warmup_for(iterations)))
        return time_us

    def _ring_fits(self, collective):
        if collective not in self._fits:
            self._fits[collective] = self._planner.carries_out(self._ring_file, collective)
        return self._fits[collective]

    def _note_traffic(self, name, cell, entered):
        """Keeps the bytes that an operation brings into hosts; a RunError when they are too few."""
        cell["traffic"][name] = round(entered)
        least = volumes.least_traffic(cell["collective"], self._job.host_of_rank, cell["size"])
        if cell["size"] >= _LEAST_CHECKED and entered < _CROSSING_SHARE * least:
            raise RunError(f"{entered:.0f} bytes an operation crossed the links into hosts, and "
                           f"{least} have to: the ranks found another way than the links")

    def _reckoned(self, name, cell):
        """The bound at the payload rate that a transfer finds now, or the prediction, which knows
        what payload there usually is; in microseconds."""
        reckon = self._planner.bound_us if name == catalogue.BOUND else self._planner.predicted_us
        stated_us = reckon(cell["collective"], cell["size"])
        if stated_us is None or name == catalogue.PREDICTED:
            return stated_us
        payload, nominal = self._laboratories.main.payload(self._job.host_of_rank[0], self._far,
                                                           _TRANSFER_SECONDS)
        cell.setdefault("payload_bytes_per_second", []).append(round(payload))
        cell["nominal_bytes_per_second"] = nominal
        return stated_us * nominal / payload


def _far_host(host_of_rank, rack_of_host):
    """A host of the job in another rack than rank 0's, if there is one; else any other one."""
    first = host_of_rank[0]
    others = [host for host in host_of_rank if host != first]
    far = [host for host in others if rack_of_host[host] != rack_of_host[first]]
    return next(iter(far + others), None)


def _ring(options, job, lab):
    if options.ring:
        with open(options.ring, encoding="utf-8") as file:
            return file.read()
    return catalogue.ring_plan(catalogue.best_ring(laboratory.racks(lab.status()),
                                                   job.host_of_rank))


class Laboratories:
    """One for the plans that our daemons choose, the peers and the bound, and one more for each
    other policy: a host has one daemon, and a daemon one policy."""

    def __init__(self, program, name, series, cleaning):
        self.main = Laboratory(program, name)
        self._of = {yardstick: Laboratory(program, f"{name}-{yardstick}")
                    for yardstick in catalogue.YARDSTICKS if yardstick in series}
        self._all = [self.main, *self._of.values()]
        self._cleaning = cleaning

    def of(self, name):
        return self._of.get(name, self.main)

    def bring_up(self, file, report):
        for lab in self._all:
            self._cleaning.callback(lab.take_down)
            made = lab.bring_up(file)
            report(f"laboratory {lab.name} " + ("is brought up for this run" if made else
                                                "is up, and stays so"))
        first = self.main.status()
        for lab in self._all[1:]:
            differs = laboratory.difference(first, lab.status())
            if differs:
                raise RunError(f"laboratories {self.main.name} and {lab.name} differ in {differs}: "
                               "put both into the same state ('fabric status', 'fabric disturb'), "
                               "or end them and let this program make them")


def _make_job(options, places, main, folder):
    host_of_rank = main.place(options.hosts, options.ranks)
    nics_folder = os.path.join(folder, "nics")
    os.mkdir(nics_folder)
    catalogue.write_nics(nics_folder, laboratory.nics(main.status()))
    return catalogue.Job(places, options.hosts, options.ranks, host_of_rank, nics_folder,
                         len(host_of_rank) > len(os.sched_getaffinity(0)))


def _need_programs(places):
    for name in ("fabric", "harmonaize", "compare_at_host"):
        if not os.path.exists(places.path(name)):
            raise RunError(f"there is no {places.path(name)}: build it ('ninja -C build/release'), "
                           "or say with --programs where it is")


def run(options, record, folder, report):
    """Generates the list of series, then the cells in the order of collectives and sizes."""
    places = _places(options)
    _need_programs(places)
    names = measurement.available(options.series, lambda name: catalogue.missing(name, places),
                                  report)
    with contextlib.ExitStack() as cleaning:
        labs = Laboratories(places.path("fabric"), options.name, names, cleaning)
        labs.bring_up(options.fabric, report)
        job = _make_job(options, places, labs.main, folder)
        rack_of_host = laboratory.racks(labs.main.status())
        record["fabric"] = {"name": options.fabric_name, "host_of_rank": job.host_of_rank,
                            "racks": {host: rack for host, rack in rack_of_host.items()
                                      if host in job.host_of_rank},
                            "buffers": options.buffers}
        planner = Planner(places.path("harmonaize"), options.fabric, job.host_of_rank,
                          laboratory.planning_words(labs.main.status()))
        if len(set(job.host_of_rank)) == 1:
            for name in [name for name in catalogue.RECKONED if name in names]:
                names.remove(name)
                report(f"{name} is left out: all ranks are at one host, and nothing crosses the "
                       "links")
        yield names
        team = FabricTeam(options, job, labs, planner, folder)
        for cell in measurement.run_team(team, names, options, report):
            for name in catalogue.RECKONED:
                cell["iterations"].pop(name, None)
            yield cell
