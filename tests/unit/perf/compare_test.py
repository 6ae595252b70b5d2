#!/usr/bin/env python3
"""What perf/compare computes. Argument: the folder of compare."""

import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import platform
import sys
import tempfile
import textwrap
import time
import unittest

FOLDER = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, FOLDER)
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from comparison import goals, machine, measurement, options, results, tables
from comparison.programs import Program, RunError, adopt_orphans

KIB, MIB = 1 << 10, 1 << 20


def load_plot():
    name = "plot" if os.path.exists(os.path.join(FOLDER, "plot")) else "compare_plot"
    loader = importlib.machinery.SourceFileLoader("plot", os.path.join(FOLDER, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("plot", loader))
    loader.exec_module(module)
    return module


def cell(times_us, size=8, collective="all_reduce", ranks=2, load=None, errors=None):
    return {"collective": collective, "ranks": ranks, "size": size, "times_us": times_us,
            "iterations": {}, "way": {}, "errors": errors or {},
            "load": load or {"others": 0.0, "steal": 0.0}}


def record(cells, series=("registered", "heap", "openmpi", "mpich", "bound")):
    return {"version": 2, "time": "2026-01-01T00:00:00+00:00", "command": "compare",
            "machine": machine.describe(), "versions": {"openmpi": "4"}, "rounds": 3,
            "statistic": "median", "series": list(series), "results": cells}


def parse(*words):
    return options.parse(list(words))


class Options(unittest.TestCase):
    def test_sizes(self):
        for text, size in (("8", 8), ("2K", 2 * KIB), ("32m", 32 * MIB), ("1G", 1 << 30)):
            self.assertEqual(options.parse_size(text), size)
        for text in ("", "K", "-1", "1.5M", "1T", "8 ", "\u0663"):
            with self.assertRaises(argparse.ArgumentTypeError, msg=text):
                options.parse_size(text)

    def test_tables_are_the_default_sizes(self):
        sizes = parse().sizes
        self.assertEqual(sizes[0], 8)
        self.assertEqual(sizes[10:12], [8 * KIB, 16 * KIB])
        self.assertEqual(sizes[-1], 256 * MIB)
        self.assertEqual(len(sizes), 26)
        self.assertEqual(parse("--tables", "latency").sizes, sizes[:11])
        self.assertEqual(parse("--sizes", "1M,8,8").sizes, [8, MIB])

    def test_lists(self):
        found = parse("--collectives", "all", "--ranks", "2,4,8", "--series", "heap,gloo")
        self.assertEqual(len(found.collectives), 9)
        self.assertEqual(found.ranks, [2, 4, 8])
        self.assertEqual(found.series, ["heap", "gloo"])

    def test_mistakes_are_named(self):
        for words, text in ((["--series", "nccl"], "'nccl' is not one of"),
                            (["--ranks", "0"], "less than 1"), (["--ranks", "65"], "at most 64"),
                            (["--rounds", "x"], "invalid int value"),
                            (["--sizes", "2"], "4 bytes"), (["--sizes", "1Q"], "is no size"),
                            (["--read", "a", "--json", "b"], "nothing for --json")):
            errors = io.StringIO()
            with self.assertRaises(SystemExit) as caught, contextlib.redirect_stderr(errors):
                parse(*words)
            self.assertEqual(caught.exception.code, 2)
            self.assertIn(text, errors.getvalue())

    def test_command_names_no_places(self):
        command = options.public_command(["--sizes", "8", "--json", "/home/me/a.json", "--rounds=3",
                                          "--programs=/opt/x", "--report", "/tmp/r.md"])
        self.assertEqual(command, "compare --sizes 8 --rounds=3")


class Results(unittest.TestCase):
    def test_quartiles(self):
        self.assertEqual(results.quartiles([5]), (5, 5))
        self.assertEqual(results.quartiles([3, 1, 2]), (1, 3))
        self.assertEqual(results.quartiles([5, 4, 3, 2, 1]), (2, 4))
        self.assertEqual(results.quartiles(list(range(9))), (2, 6))

    def test_statistics(self):
        one = cell({"heap": [4.0, 2.0, 3.0], "gloo": []}, size=6000)
        self.assertEqual(results.time_of(one, "heap", "median"), 3.0)
        self.assertEqual(results.time_of(one, "heap", "best"), 2.0)
        self.assertEqual(results.bandwidth(one, "heap", "median"), 2.0)  # 6000 B in 3 us
        self.assertIsNone(results.time_of(one, "gloo", "median"))
        self.assertIsNone(results.bandwidth(one, "mpich", "median"))

    def test_best_peer_is_that_of_the_statistic(self):
        one = cell({"openmpi": [1.0, 9.0, 9.0], "mpich": [5.0, 5.0, 5.0], "bound": [0.1],
                    "heap": [0.1]})
        self.assertEqual(results.best_peer(one, "median"), "mpich")
        self.assertEqual(results.best_peer(one, "best"), "openmpi")
        self.assertIsNone(results.best_peer(cell({"heap": [1.0]}), "median"))

    def test_ratio_is_taken_round_by_round(self):
        # The machine slows down fourfold, for both: the ratio does not care.
        one = cell({"registered": [1.0, 2.0, 4.0], "mpich": [2.0, 4.0, 8.0]})
        ratio = results.peer_ratio(one, "registered", "median")
        self.assertEqual((ratio.low, ratio.value, ratio.high), (2.0, 2.0, 2.0))
        self.assertIsNone(results.peer_ratio(cell({"registered": [1.0]}), "registered", "median"))

    def test_bound(self):
        one = cell({"registered": [4.0], "bound": [3.0]})
        self.assertEqual(results.bound_ratio(one, "registered", "median").value, 0.75)

    def test_unsteady(self):
        self.assertEqual(results.unsteady(cell({"heap": [1.0, 1.1, 1.0]})), [])
        self.assertIn("heap scatters", results.unsteady(cell({"heap": [1.0, 2.0, 1.0]}))[0])
        busy = results.unsteady(cell({"heap": [1.0]}, load={"others": 0.4, "steal": 0.2}))
        self.assertIn("others used 40%", busy[0])
        self.assertIn("hypervisor took 20%", busy[1])


class Goals(unittest.TestCase):
    def goal(self, size, series="registered", collective="all_reduce", ranks=2):
        return goals.goal_for(collective, ranks, size, series)

    def test_all_reduce_of_two(self):
        for size, registered, heap in (
                (8, 2.0, 2.0), (2 * KIB, 2.0, 2.0), (8 * KIB, 4.0, 1.5), (512 * KIB, 4.0, 1.5),
                (1 * MIB, 4.0, 1.2), (8 * MIB, 4.0, 1.2), (32 * MIB, 2.5, 1.2),
                (256 * MIB, 2.5, 1.2)):
            self.assertEqual(self.goal(size).peer, registered, size)
            self.assertEqual(self.goal(size, "heap").peer, heap, size)
        self.assertEqual(self.goal(32 * MIB).bound, 0.85)
        self.assertIsNone(self.goal(8 * MIB).bound)
        self.assertIsNone(self.goal(32 * MIB, "heap").bound)

    def test_elsewhere_parity(self):
        for goal in (self.goal(4 * KIB), self.goal(16 * MIB), self.goal(8, ranks=4),
                     self.goal(8, collective="gather"), self.goal(MIB, "heap", "sendrecv", 4)):
            self.assertEqual(goal, goals.PARITY)
        self.assertIsNone(self.goal(8, ranks=8))

    def test_verdicts(self):
        def judge(ours, peer, size=8, **more):
            return goals.judge(cell({"registered": ours, "openmpi": peer, **more}, size),
                               "registered", "median")
        self.assertEqual(judge([1.0] * 3, [2.0] * 3), goals.HOLDS)  # exactly half the time
        self.assertEqual(judge([1.0] * 3, [1.9] * 3), goals.MISSES)
        self.assertEqual(judge([1.0] * 3, [1.5, 2.5, 2.6]), goals.UNSURE)
        self.assertEqual(judge([1.0] * 3, []), goals.UNKNOWN)

    def test_verdict_with_a_bound(self):
        def judge(bound):
            times = {"registered": [1.0] * 3, "openmpi": [9.0] * 3, "bound": bound}
            return goals.judge(cell(times, 64 * MIB), "registered", "median")
        self.assertEqual(judge([0.9] * 3), goals.HOLDS)
        self.assertEqual(judge([0.8] * 3), goals.MISSES)
        self.assertEqual(judge([]), goals.UNKNOWN)


class Measurement(unittest.TestCase):
    def test_iterations(self):
        self.assertEqual(measurement.choose_iterations(8, 0.4, 0.1, 3), 100000)
        self.assertEqual(measurement.choose_iterations(8, 100.0, 0.1, 3), 1000)
        self.assertEqual(measurement.choose_iterations(256 * MIB, 1e6, 0.1, 3), 3)
        self.assertEqual(measurement.choose_iterations(8, 100.0, 0.1, 3, fixed=7), 7)

    def test_order_changes_from_round_to_round(self):
        items = ["a", "b", "c"]
        self.assertEqual([measurement.rotated(items, turn)[0] for turn in range(4)],
                         ["a", "b", "c", "a"])
        self.assertEqual(measurement.rotated([], 3), [])


class Machine(unittest.TestCase):
    def test_shares(self):
        change = {"busy": 150, "own": 100, "steal": 10, "total": 200}
        self.assertEqual(machine.shares(change), {"others": 0.25, "steal": 0.05})
        self.assertEqual(machine.shares({"busy": 1, "own": 3, "steal": 0, "total": 0})["others"], 0)

    def test_family(self):
        processes = {1: (0, 0), 2: (1, 0), 3: (2, 0), 4: (3, 0), 5: (1, 0)}
        self.assertEqual(sorted(machine.family(2, processes)), [2, 3, 4])

    def test_load_does_not_count_ourselves(self):
        load = machine.Load()
        self.assertEqual(set(load.since_last()), {"others", "steal"})

    def test_description_names_nobody(self):
        text = json.dumps(machine.describe())
        self.assertNotIn("hostname", text)
        if len(platform.node()) > 3:
            self.assertNotIn(platform.node(), text)


class Tables(unittest.TestCase):
    CELLS = [cell({"registered": [1.0] * 3, "heap": [1.5] * 3, "openmpi": [2.0] * 3,
                   "bound": [0.5] * 3}, 8),
             cell({"registered": [1.0] * 3, "openmpi": [3.0] * 3}, 32 * KIB,
                  errors={"heap": "out of luck"}, load={"others": 0.5, "steal": 0.0})]

    def test_rows(self):
        lines = []
        printer = tables.Printer(record(self.CELLS), lines.append)
        for one in self.CELLS:
            printer.add(one)
        text = "\n".join(lines)
        self.assertIn("# all_reduce, 2 ranks, float32; median of 3 rounds", text)
        self.assertRegex(text, r"8 B +1\.00 +1\.50 +2\.00 +- +0\.500 +2\.00 +1\.33 +0\.500 +0\.333 "
                               r" openmpi\n")
        self.assertRegex(text, r"32 KiB +32\.77 +failed .* openmpi  ~\n")  # 32 KiB in 1 us: GB/s
        self.assertIn("heap failed: out of luck", text)
        self.assertIn("others used 50%", text)

    def test_summary(self):
        text = "\n".join(tables.summary(record(self.CELLS)))
        self.assertRegex(text, r"8 B +2\.00x +>= 2\.0x  holds +1\.33x +>= 2\.0x  MISSES")
        self.assertRegex(text, r"32 KiB +3\.00x +>= 4\.0x  MISSES +- +>= 1\.5x  -")
        self.assertIn("registered: 1 hold, 1 miss", text)
        self.assertIn("THE MACHINE WAS BUSY", text)

    def test_report(self):
        text = tables.report(record(self.CELLS))
        for part in ("    compare\n", "transparent huge pages", "openmpi 4", "## Goals"):
            self.assertIn(part, text)

    def test_plot(self):
        plot = load_plot()
        arguments = plot.parse(["results.json"])
        self.assertEqual(arguments.output, "results.png")
        text = plot.script(record(self.CELLS), arguments)
        self.assertIn("$registered << end\n8 1\nend", text)
        self.assertIn("$registered << end\n32768 32.768\nend", text)
        self.assertIn("set multiplot layout 1,2", text)
        with self.assertRaises(SystemExit):
            plot.script(record(self.CELLS), plot.parse(["r.json", "--ranks", "4"]))


RANKS = textwrap.dedent("""
    import os, socket, sys
    for rank in range(2):
        if os.fork() == 0:
            driver = socket.socket(socket.AF_UNIX)
            driver.connect(sys.argv[1] + "/driver")
            driver.sendall(b"%d\\n" % rank)
            for line in driver.makefile():
                collective, size, iterations, warmup, way = line.split()
                if collective == "die" and rank == 1: sys.exit("so be it")
                if collective == "hang": continue
                answer = {"unsupported": b'{"unsupported": true}',
                          "err": b'{"time_us": 1, "wrong": %d}' % rank}.get(
                              collective, b'{"time_us": %d, "wrong": 0}' % (10 + 2 * rank))
                driver.sendall(answer + b"\\n")
            os._exit(0)
    codes = [os.wait()[1] for rank in range(2)]
    sys.exit(3 if any(codes) else 0)
""")


# A child that ends at once, and whose own child then ends without a parent.
ORPHAN = textwrap.dedent("""
    import os, time
    if os.fork() == 0:
        if os.fork() == 0: time.sleep(0.1)
        os._exit(0)
    os.wait()
""")


def has_ended(process):
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def start(self, script=RANKS):
        program = Program(lambda folder: [sys.executable, "-c", script, folder], 2,
                          self.folder.name)
        self.addCleanup(program.stop)
        return program

    def test_averages_over_the_ranks(self):
        program = self.start()
        for _ in range(3):
            self.assertEqual(program.measure("all_reduce", 8, 10, 1, "-", 10), 11.0)
        self.assertIsNone(program.measure("unsupported", 8, 10, 1, "-", 10))
        self.assertEqual(program.measure("all_reduce", 8, 10, 1, "-", 10), 11.0)

    def test_wrong_elements_are_an_error(self):
        with self.assertRaisesRegex(RunError, "1 wrong elements"):
            self.start().measure("err", 8, 10, 1, "-", 10)

    def test_a_rank_that_dies_is_an_error_with_its_words(self):
        with self.assertRaisesRegex(RunError, "a rank has gone.*so be it"):
            self.start().measure("die", 8, 10, 1, "-", 10)

    def test_a_rank_that_hangs_is_an_error(self):
        with self.assertRaisesRegex(RunError, "in time"):
            self.start().measure("hang", 8, 10, 1, "-", 0.2)

    def test_orphans_become_ours_and_are_buried(self):
        adopt_orphans()
        self.start(ORPHAN + RANKS)
        program = self.start(ORPHAN + RANKS)
        orphans = []
        deadline = time.monotonic() + 10
        while len(orphans) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
            orphans = [process for process in machine.children(os.getpid()) if has_ended(process)]
        self.assertEqual(len(orphans), 2)
        program.stop()
        self.assertEqual(set(orphans) & set(machine.children(os.getpid())), set())
        # The other program's ranks, who run, are not taken for orphans.
        self.assertEqual(len(machine.children(os.getpid())), 1)

    def test_a_program_that_does_not_start_is_an_error(self):
        with self.assertRaisesRegex(RunError, "status 4: no way"):
            self.start("import sys; print('no way'); sys.exit(4)")


if __name__ == "__main__":
    unittest.main()
