#!/usr/bin/env python3
"""What perf/compare/fabric computes. Argument: the folder of compare."""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import stat
import sys
import tempfile
import textwrap
import tomllib
import types
import unittest

FOLDER = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, FOLDER)
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from comparison import (across_hosts, driver, fabric_goals, fabric_options, fabric_series,
                        fabric_tables, goals, laboratory, machine, one_host, tables, volumes)
from comparison.programs import RunError
from comparison.series import Places

KIB, MIB = 1 << 10, 1 << 20
ACROSS = ["host0", "host2", "host1", "host3"]
RACKS = {"host0": "rack0", "host1": "rack0", "host2": "rack1", "host3": "rack1"}


def status(rate=62.5e6, up=True, sent=(0, 0), processes=(), flows=(), folder=""):
    """As 'fabric status --json' has it: two hosts and a switch."""
    return {"folder": folder, "flows": list(flows), "processes": list(processes),
            "nodes": [{"name": "host0", "kind": "host", "rack": "a", "nics": [
                          {"device": "nic0", "address": "10.96.0.1"},
                          {"device": "nic1", "address": "10.96.0.2"}]},
                      {"name": "host1", "kind": "host", "nics": [
                          {"device": "left", "address": "10.96.0.3"}]},
                      {"name": "leaf0", "kind": "leaf", "nics": []}],
            "links": [{"name": "host0-leaf0", "from": "host0:nic0", "to": "leaf0", "up": up,
                       "bytes_per_second": [rate, rate], "sent_bytes": list(sent)},
                      {"name": "leaf0-host1", "from": "leaf0", "to": "host1:left", "up": True,
                       "bytes_per_second": [1.0, 1.0], "sent_bytes": [7, 1000]},
                      {"name": "leaf0-leaf1", "from": "leaf0", "to": "leaf1", "up": True,
                       "bytes_per_second": [1.0, 1.0], "sent_bytes": [50, 50]}]}


class Volumes(unittest.TestCase):
    def test_units_are_whole_elements(self):
        self.assertEqual(volumes.unit_bytes("all_reduce", 8, 1001), 1000)
        self.assertEqual(volumes.unit_bytes("all_gather", 8, 64 * MIB), 8 * MIB)
        self.assertEqual(volumes.unit_bytes("reduce_scatter", 3, 100), 32)  # 25 elements, 8 each
        self.assertEqual(volumes.unit_bytes("gather", 8, 8), 0)

    def test_bus_bandwidth_is_that_of_nccl_tests(self):
        self.assertEqual(volumes.bus_factor("all_reduce", 4), 1.5)
        for collective in ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter"):
            self.assertEqual(volumes.bus_factor(collective, 4), 0.75)
        for collective in ("broadcast", "reduce", "sendrecv"):
            self.assertEqual(volumes.bus_factor(collective, 4), 1.0)

    def test_what_has_to_enter_hosts(self):
        # Two hosts of two ranks; the unit is the whole, or a quarter of it.
        places = ["a", "a", "b", "b"]
        for collective, units in (
                ("all_reduce", 2 * 4), ("reduce", 4), ("broadcast", 4),
                ("broadcast_turns", 4), ("all_gather", 2 + 2), ("reduce_scatter", 4), ("alltoall", 8), ("gather", 2), ("scatter", 2),
                ("sendrecv", 2 * 4)):
            self.assertEqual(volumes.least_traffic(collective, places, 4 * KIB), units * KIB,
                             collective)
        self.assertEqual(volumes.least_traffic("sendrecv", ["a", "b", "a", "b"], 8), 4 * 8)
        self.assertEqual(volumes.least_traffic("all_reduce", ["a"] * 4, MIB), 0)


class Options(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "some-fabric.toml")
        self.write("")

    def write(self, text):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(text)

    def test_the_laboratory_is_called_like_the_fabric(self):
        self.assertEqual(fabric_options.parse(["--fabric", self.file]).name, "some-fabric")
        self.write('[fabric]\nname = "mine"\n')
        self.assertEqual(fabric_options.parse(["--fabric", self.file]).name, "mine")
        chosen = fabric_options.parse(["--fabric", self.file, "--name", "x"])
        self.assertEqual((chosen.name, chosen.fabric_name), ("x", "mine"))

    def test_defaults(self):
        chosen = fabric_options.parse(["--fabric", self.file])
        self.assertEqual(chosen.sizes, [8, KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB])
        self.assertEqual(chosen.series, fabric_series.SERIES)
        self.assertEqual((chosen.fewest, chosen.rounds, chosen.buffers), (1, 5, "heap"))

    def test_mistakes_are_named(self):
        for words, text in (([], "name a fabric file"),
                            (["--fabric", "/nowhere.toml"], "No such file"),
                            (["--fabric", self.file, "--series", "mpich"], "'mpich' is not one of"),
                            (["--fabric", self.file, "-n", "65"], "at most 64"),
                            (["--fabric", self.file, "--ring", "/nowhere"], "no file /nowhere"),
                            (["--fabric", self.file, "--json", "/nowhere/x"], "no folder /nowhere"),
                            (["--fabric", self.file, "--sizes", "2"], "4 bytes")):
            errors = io.StringIO()
            with self.assertRaises(SystemExit) as caught, contextlib.redirect_stderr(errors):
                fabric_options.parse(words)
            self.assertEqual(caught.exception.code, 2)
            self.assertIn(text, errors.getvalue())
        self.write("so = so =")
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(errors):
            fabric_options.parse(["--fabric", self.file])
        self.assertIn("is not TOML", errors.getvalue())

    def test_kept_results_need_no_fabric(self):
        self.assertEqual(fabric_options.parse(["--read", "x.json"]).read, "x.json")

    def test_command_names_files_without_their_places(self):
        command = fabric_options.public_command(
            ["--fabric", "/home/me/two-racks.toml", "--ring=/home/me/ring.toml", "--sizes", "8",
             "--json", "/home/me/a.json", "--programs", "/opt"])
        self.assertEqual(command,
                         "compare_fabric --fabric two-racks.toml --ring=ring.toml --sizes 8")


class Series(unittest.TestCase):
    def test_best_ring_goes_rack_by_rack(self):
        self.assertEqual(fabric_series.best_ring(RACKS, ACROSS),
                         ["host0", "host1", "host2", "host3"])
        mixed = {"a": "r0", "b": "r1", "c": "r0", "d": "r1", "e": "r0"}
        self.assertEqual(fabric_series.best_ring(mixed, ["d", "a", "b", "e", "a"]),
                         ["a", "e", "b", "d"])
        self.assertEqual(fabric_series.best_ring({"x": "", "y": ""}, ["y", "x"]), ["x", "y"])

    def test_files_for_the_daemons(self):
        plan = tomllib.loads(fabric_series.ring_plan(["host0", "host1"]))["plan"]
        self.assertEqual((plan["algorithm"], plan["order"], plan["paths"]),
                         ("ring", ["host0", "host1"], "ecmp"))
        def policy(name):
            return tomllib.loads(fabric_series.daemon_configuration(name, "/x/ring.toml"))
        self.assertEqual(policy("harmonaize"), {})
        self.assertEqual(policy("static-ring"), {"plans": {"policy": "static-ring"}})
        self.assertEqual(policy("fixed-ring"),
                         {"plans": {"policy": "fixed", "file": "/x/ring.toml"}})

    def command(self, name, places="/opt/my bin"):
        with tempfile.TemporaryDirectory() as folder:
            job = fabric_series.Job(Places(places, 8), "a:2,b:1", 3, ["a", "a", "b"], "/t/nics",
                                    True)
            lab = laboratory.Laboratory("/opt/fabric", "lab")
            words = fabric_series.command(name, job, lab, folder, "/t/c.toml")
            hosts = os.path.join(folder, "hosts")
            if os.path.exists(hosts):
                with open(hosts, encoding="utf-8") as file:
                    self.hosts = file.read()
        return words

    def test_ours_and_gloo_are_jobs_of_the_laboratory(self):
        words = self.command("harmonaize")
        self.assertEqual(words[:8], ["/opt/fabric", "run", "--name", "lab", "--hosts", "a:2,b:1",
                                     "-n", "3"])
        self.assertIn("/t/c.toml", words)
        self.assertIn("/opt/my bin/compare_harmonaize", words)
        words = self.command("gloo")
        self.assertEqual(words[words.index("--daemon") + 1], "none")

    def test_open_mpi_goes_through_the_remote_shell(self):
        words = self.command("openmpi")
        self.assertEqual(words[:5], ["/opt/my bin/compare_at_host", "/opt/fabric", "lab", "/t/nics",
                                     "a"])
        self.assertEqual(len(words), 6)  # one for the shell there, as ssh would be given it
        mpirun = shlex.split(words[5])
        self.assertEqual(mpirun[:2], ["exec", "mpirun.openmpi"])
        agent = mpirun[mpirun.index("plm_rsh_agent") + 1]
        self.assertEqual(shlex.split(agent), words[:4])
        self.assertEqual(mpirun[mpirun.index("btl") + 1], "tcp,self,vader")
        self.assertIn("--leave-session-attached", mpirun)
        self.assertEqual(mpirun[mpirun.index("-n") + 1], "3")
        self.assertEqual(self.hosts, "a\na\nb\n")

    def test_nics_are_named_for_each_host(self):
        with tempfile.TemporaryDirectory() as folder:
            fabric_series.write_nics(folder, laboratory.nics(status()))
            with open(os.path.join(folder, "host0"), encoding="utf-8") as file:
                self.assertEqual(file.read(), "nic0,nic1\n")
            self.assertEqual(sorted(os.listdir(folder)), ["host0", "host1"])

    def test_what_is_not_built_is_left_out_with_a_reason(self):
        places = Places("/nowhere", 8)
        self.assertIn("was not built", fabric_series.missing("static-ring", places))
        self.assertIn("compare_gloo was not built", fabric_series.missing("gloo", places))
        self.assertIsNone(fabric_series.missing("bound", places))


FABRIC = textwrap.dedent("""\
    #!/bin/sh
    # Stands for the program: notes what it is asked, and has one laboratory.
    here=$(dirname "$0")
    echo "$*" >> "$here/asked"
    case $1 in
      status) test -e "$here/up" || { echo "fabric: no laboratory lab is up" >&2; exit 1; }
              cat "$here/status";;
      up) echo "fabric: so be it" >&2; test ! -e "$here/broken" && cp "$2" "$here/fabric.toml" \\
              && touch "$here/up";;
      down) rm -f "$here/up";;
      measure) echo '[{"payload_bytes_per_second": 50.0, "nominal_bytes_per_second": 62.5}]';;
      run) printf '1 host2\\n0 host0\\n';;
    esac
""")


class Laboratories(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        program = self.write("fabric", FABRIC)
        os.chmod(program, stat.S_IRWXU)
        self.file = self.write("file.toml", "one")
        self.write("status", json.dumps(status(folder=self.folder)))
        self.lab = laboratory.Laboratory(program, "lab")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def asked(self):
        with open(os.path.join(self.folder, "asked"), encoding="utf-8") as file:
            return [line.split()[0] for line in file]

    def test_what_it_makes_it_takes_down(self):
        self.assertTrue(self.lab.bring_up(self.file))
        self.lab.take_down()
        self.lab.take_down()
        self.assertEqual(self.asked(), ["status", "up", "down"])

    def test_what_is_there_stays(self):
        self.write("up", "")
        self.write("fabric.toml", "one")
        self.assertFalse(self.lab.bring_up(self.file))
        self.lab.take_down()
        self.assertNotIn("down", self.asked())

    def test_what_does_not_come_up_is_taken_down(self):
        self.write("broken", "")
        with self.assertRaisesRegex(RunError, "fabric: so be it"):
            self.lab.bring_up(self.file)
        self.lab.take_down()
        self.assertEqual(self.asked(), ["status", "up", "down"])

    def test_another_fabric_of_this_name_is_an_error(self):
        self.write("up", "")
        self.write("fabric.toml", "another")
        with self.assertRaisesRegex(RunError, "laboratory lab is up, and is not of .*--name"):
            self.lab.bring_up(self.file)

    def test_daemons_of_others_are_an_error(self):
        self.write("up", "")
        self.write("fabric.toml", "one")
        self.write("status", json.dumps(status(folder=self.folder, processes=[
            {"host": "host1", "role": "daemon", "pid": 12}])))
        with self.assertRaisesRegex(RunError, "a daemon serves host1 .*process 12"):
            self.lab.bring_up(self.file)

    def test_answers(self):
        self.write("up", "")
        self.assertEqual(self.lab.payload("a", "b", 1), (50.0, 62.5))
        self.assertEqual(self.lab.place("host0,host2", None), ["host0", "host2"])

    def test_last_words_of_daemons(self):
        self.write("up", "")
        os.makedirs(os.path.join(self.folder, "hosts/host1"))
        self.write("hosts/host1/harmonaized.log", "first\n\nno such key\n\n")
        self.assertEqual(self.lab.last_words(["host0", "host1", "host1"]),
                         ["the daemon of host1: no such key"])

    def test_a_program_that_is_not_there_is_an_error(self):
        with self.assertRaisesRegex(RunError, "cannot start /nowhere: No such file"):
            laboratory.call(["/nowhere"])

    def test_counts_what_enters_hosts(self):
        self.assertEqual(laboratory.bytes_into_hosts(status(sent=(100, 20))), 20 + 7)

    def test_differences(self):
        self.assertIsNone(laboratory.difference(status(), status(sent=(5, 5))))
        self.assertEqual(laboratory.difference(status(), status(rate=1.0)), "link host0-leaf0")
        self.assertEqual(laboratory.difference(status(), status(up=False)), "link host0-leaf0")
        self.assertEqual(laboratory.difference(status(), status(flows=[{}])), "background flows")


class FakeLaboratories:
    """The counters of a fabric on which an operation brings so many bytes into hosts."""

    def __init__(self, payload=50.0):
        self.main = self
        self.entered = 0
        self._payload = payload

    def of(self, name):
        del name
        return self

    def status(self):
        return status(sent=(0, self.entered))

    def payload(self, first, second, seconds):
        self.pair = (first, second)
        del seconds
        return self._payload, 100.0


class FakeProgram:
    def __init__(self, laboratories, bytes_each):
        self.stopped = 0
        self._laboratories = laboratories
        self._bytes = bytes_each

    def measure(self, collective, size, iterations, warmup, way, timeout):
        del collective, size, timeout
        self.asked = (iterations, warmup, way)
        self._laboratories.entered += self._bytes * (iterations + warmup)
        return 3.0

    def stop(self):
        self.stopped += 1


class Team(unittest.TestCase):
    def make(self, bytes_each, reconnect=False):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        options = types.SimpleNamespace(buffers="heap", ring=None, timeout=1, reconnect=reconnect)
        job = fabric_series.Job(Places("/p", 8), "", 2, ["host0", "host1"], "", False)
        planner = types.SimpleNamespace(bound_us=lambda collective, size: 10.0,
                                        carries_out=lambda file, collective: collective != "reduce")
        self.labs = FakeLaboratories()
        self.program = FakeProgram(self.labs, bytes_each)
        program = self.program

        class Tested(across_hosts.FabricTeam):
            def make_program(self, library):
                return None if library == "bound" else program
        return Tested(options, job, self.labs, planner, folder.name)

    def cell(self, collective="all_reduce"):
        return {"collective": collective, "size": 64 * KIB, "times_us": {}, "errors": {}}

    def test_the_bound_is_that_of_the_payload(self):
        cell = self.cell()
        self.assertEqual(self.make(0).measure("bound", cell, 1, "-"), 20.0)  # half of nominal
        self.assertEqual(cell["payload_bytes_per_second"], [50.0])
        self.assertEqual(self.labs.pair, ("host0", "host1"))

    def test_traffic_is_kept_for_an_operation(self):
        cell = self.cell()
        team = self.make(2 * 64 * KIB)
        self.assertEqual(team.measure("gloo", cell, 20, "-"), 3.0)
        self.assertEqual(cell["traffic"], {"gloo": 2 * 64 * KIB})
        self.assertEqual(team.measure("gloo", cell, 1, "-"), 3.0)

    def test_who_goes_round_the_links_is_found_out(self):
        team = self.make(100)
        with self.assertRaisesRegex(RunError, "another way than the links"):
            team.measure("openmpi", self.cell(), 20, "-")
        self.assertEqual(self.make(100).measure("openmpi", {**self.cell(), "size": 8}, 1, "-"), 3.0)

    def test_the_ring_is_asked_for_what_it_can_do(self):
        team = self.make(10 * MIB)
        self.assertIsNone(team.measure("fixed-ring", self.cell("reduce"), 1, "heap"))
        self.assertEqual(team.measure("fixed-ring", self.cell(), 1, "heap"), 3.0)

    def test_warm_up(self):
        team = self.make(10 * MIB)
        team.measure("harmonaize", self.cell(), 1, "heap")
        self.assertEqual(self.program.asked, (1, 0, "heap"))
        team.measure("harmonaize", self.cell(), 30, "heap")
        self.assertEqual(self.program.asked, (30, 3, "heap"))
        self.assertEqual(self.make(0, reconnect=True).warmup_for(1), 1)

    def test_rounds_may_begin_with_new_connections(self):
        for reconnect in (False, True):
            team = self.make(10 * MIB, reconnect)
            team.measure("gloo", self.cell(), 1, "-")
            team.begin_round()
            self.assertEqual(self.program.stopped, int(reconnect))

    def test_a_transfer_goes_to_another_rack(self):
        far = across_hosts._far_host
        self.assertEqual(far(["host0", "host1", "host3"], RACKS), "host3")
        self.assertEqual(far(["host0", "host0", "host1"], RACKS), "host1")
        self.assertIsNone(far(["host0"], RACKS))


def cell(times_us, size=64 * MIB, collective="all_reduce", ranks=8, payload=62.0, errors=None):
    return {"collective": collective, "ranks": ranks, "size": size, "times_us": times_us,
            "iterations": {}, "way": {}, "errors": errors or {}, "traffic": {},
            "payload_bytes_per_second": [payload], "nominal_bytes_per_second": 62.5,
            "load": {"others": 0.0, "steal": 0.0}}


def fabric(name="two-racks", hosts=("host0", "host0", "host2", "host2", "host1", "host3")):
    return {"name": name, "host_of_rank": list(hosts), "racks": RACKS, "buffers": "heap"}


class Goals(unittest.TestCase):
    def demands(self, one, *where):
        return {demand.of: demand.ratio for demand in fabric_goals.demands(fabric(*where), one)}

    def test_two_racks(self):
        for collective in ("all_reduce", "all_gather"):
            self.assertEqual(self.demands(cell({}, collective=collective)),
                             {fabric_goals.PEER: 1.0, "bound": 0.9, "static-ring": 2.6,
                              "fixed-ring": 1.4})
        self.assertEqual(self.demands(cell({}, collective="broadcast")),
                         {fabric_goals.PEER: 1.0, "bound": 0.9})
        self.assertEqual(self.demands(cell({}, collective="alltoall")), {fabric_goals.PEER: 1.0})
        self.assertEqual(self.demands(cell({}, size=MIB)), {fabric_goals.PEER: 1.0})

    def test_small_ones_of_one_root_show_a_rate(self):
        self.assertEqual(self.demands(cell({}, collective="broadcast", size=1024)), {})
        self.assertEqual(self.demands(cell({}, collective="broadcast_turns", size=1024)),
                         {fabric_goals.PEER: 1.0})

    def test_a_good_order_is_no_ring_to_be_beaten(self):
        self.assertEqual(self.demands(cell({}), "two-racks", ["host0", "host1", "host2", "host3"]),
                         {fabric_goals.PEER: 1.0, "bound": 0.9})

    def test_other_fabrics(self):
        self.assertEqual(self.demands(cell({}), "rails"), {fabric_goals.PEER: 1.0, "bound": 0.9})
        self.assertEqual(self.demands(cell({}), "rails", ["host0"] * 4), {})

    def test_two_hosts_on_an_unshaped_link(self):
        for size, wanted in ((64 * KIB, 1.0), (MIB, 1.3), (64 * MIB, 1.3)):
            self.assertEqual(self.demands(cell({}, size=size, payload=20.0), "two-hosts",
                                          ["host0", "host2"]), {fabric_goals.PEER: wanted})
        # The same two hosts on a link that is as fast as it says.
        self.assertEqual(self.demands(cell({}, size=MIB), "two-hosts", ["host0", "host2"]),
                         {fabric_goals.PEER: 1.0})

    def test_verdicts(self):
        one = cell({"harmonaize": [10.0] * 3, "static-ring": [27.0] * 3, "fixed-ring": [13.0] * 3,
                    "bound": [9.5] * 3, "openmpi": [9.0, 10.0, 12.0]})
        verdicts = {demand.of: fabric_goals.judge(demand, one, "median")
                    for demand in fabric_goals.demands(fabric(), one)}
        self.assertEqual(verdicts, {"static-ring": goals.HOLDS, "fixed-ring": goals.MISSES,
                                    "bound": goals.HOLDS, fabric_goals.PEER: goals.UNSURE})
        demand = fabric_goals.Demand("static-ring", 2.6)
        self.assertEqual(fabric_goals.judge(demand, cell({}), "best"), goals.UNKNOWN)


class Tables(unittest.TestCase):
    CELLS = [cell({"harmonaize": [2000.0] * 3, "static-ring": [6000.0] * 3, "openmpi": [4000.0] * 3,
                   "bound": [1800.0] * 3}, size=MIB),
             cell({"harmonaize": [2000.0] * 3, "bound": [1000.0] * 3}, errors={"gloo": "no luck"})]

    def record(self):
        return {"version": 2, "time": "2026-01-01T00:00:00+00:00", "command": "compare_fabric",
                "machine": machine.describe(), "versions": {"openmpi": "4"}, "rounds": 3,
                "statistic": "median", "series": fabric_series.SERIES, "interrupted": False,
                "fabric": fabric(), "results": self.CELLS}

    def test_rows(self):
        lines = []
        printer = fabric_tables.Printer(self.record(), lines.append)
        for one in self.CELLS:
            printer.add(one)
        text = "\n".join(lines)
        self.assertEqual(text.count("# all_reduce, 8 ranks on 4 hosts of two-racks (host0, "), 1)
        # 1 MiB in 2000 us; 0.9 of the bound, twice the peer, three times the ring.
        self.assertRegex(text, r"1 MiB +harmonaize +2000 +0\.5243 +0\.9175 +0\.900 +2\.00 +3\.00")
        self.assertRegex(text, r"\n +static-ring +6000 +0\.1748 +0\.3058 +0\.300 +0\.667 +-")
        self.assertRegex(text, r"\n +bound +1800 +0\.5825 +1\.0194 +- +- +-\n")
        self.assertRegex(text, r"\n +gloo +failed\n")
        self.assertIn("gloo failed: no luck", text)
        self.assertEqual(len(re.findall(r"openmpi", text)), 1)  # not where it was not measured

    def test_summary(self):
        text = "\n".join(fabric_tables.summary(self.record()))
        self.assertRegex(text, r"1 MiB +1\.0x the best peer +2\.00 \(openmpi\) +holds")
        self.assertRegex(text, r"64 MiB +1\.0x the best peer +- +-")
        self.assertRegex(text, r"\n +90% of the bound +0\.500 +MISSES")
        self.assertRegex(text, r"\n +2\.6x static-ring +- +-")
        self.assertIn("harmonaize: 1 hold, 1 miss, 3 not judged", text)

    def test_report(self):
        text = tables.report(self.record(), fabric_tables.Printer, fabric_tables.summary)
        for part in ("    compare_fabric\n", "openmpi 4", "## Goals", "90% of the bound"):
            self.assertIn(part, text)


class KeptResults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "record.json")
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(Tables().record(), file)

    def read(self, comparison):
        said = io.StringIO()
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with contextlib.redirect_stdout(said):
                status_ = driver.main(comparison, ["--read", self.path])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return status_, said.getvalue()

    def test_are_shown_again(self):
        status_, said = self.read(across_hosts)
        self.assertEqual(status_, 0)
        self.assertRegex(said, r"1 MiB +harmonaize +2000")
        self.assertIn("# goals: all_reduce, 8 ranks", said)

    def test_of_the_other_comparison_are_an_error(self):
        with self.assertRaisesRegex(SystemExit, "not written by this version of compare"):
            self.read(one_host)


if __name__ == "__main__":
    unittest.main()
