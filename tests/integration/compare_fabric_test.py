#!/usr/bin/env python3
"""perf/compare/fabric in laboratories of its own. Arguments: the folder of compare_fabric, and that
of the fabric files. It asserts no time. Ends with 77 where there can be no laboratory."""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

FABRICS = os.path.abspath(sys.argv.pop(2))
PROGRAMS = os.path.abspath(sys.argv.pop(1))
SKIPPED = 77
TWO_HOSTS = os.path.join(FABRICS, "two-hosts.toml")
ONE_RACK = os.path.join(FABRICS, "one-rack.toml")
NAME = f"cf{os.getpid()}"
PEERS = ["openmpi", "gloo"]


def fabric(*words):
    return subprocess.run([os.path.join(PROGRAMS, "fabric"), *words], capture_output=True,
                          text=True, check=False)


def reason_to_skip():
    """Why there can be no laboratory here, or None."""
    made = fabric("up", TWO_HOSTS, "--name", NAME)
    fabric("down", "--name", NAME)
    return None if made.returncode == 0 else made.stderr.strip()


def leftovers():
    """What a run must not leave behind."""
    return {path for pattern in (f"/run/netns/hzf.{NAME}*", "/dev/shm/harmonaize-compare-*",
                                 "/dev/shm/vader_segment.*", "/tmp/ompi.host*",
                                 os.environ["HARMONAIZE_FABRIC_STATE"] + "/*")
            for path in glob.glob(pattern)}


class CompareFabric(unittest.TestCase):
    def setUp(self):
        self.before = leftovers()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = os.path.join(folder.name, "record.json")

    def tearDown(self):
        self.assertEqual(leftovers() - self.before, set())

    def command(self, *words):
        return [os.path.join(PROGRAMS, "compare_fabric"), "--fabric", TWO_HOSTS, "--name", NAME,
                "--rounds", "1", "--json", self.json, *words]

    def run_it(self, *words):
        """Exit status and what it said."""
        done = subprocess.run(self.command("--iterations", "5", *words), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def record(self):
        with open(self.json, encoding="utf-8") as file:
            return json.load(file)

    def test_peers_across_two_hosts(self):
        size = 64 << 10
        status, said = self.run_it("--hosts", "host0:2,host1:2", "--series", "openmpi,gloo,bound",
                                   "--collectives", "all_reduce,all_gather,broadcast", "--sizes",
                                   f"8,{size}")
        self.assertEqual(status, 0, said)
        record = self.record()
        self.assertEqual(record["fabric"]["host_of_rank"], ["host0", "host0", "host1", "host1"])
        self.assertIn("bound", record["series"])
        for one in record["results"]:
            self.assertEqual(one["errors"], {}, said)
            for name in record["series"]:
                if one["collective"] == "all_gather" and one["size"] == 8:
                    continue  # no whole element for each rank
                self.assertEqual(len(one["times_us"][name]), 1, said)
            for peer in set(record["series"]) & set(PEERS) if one["size"] == size else ():
                # Of each collective half of the larger buffer, at least, enters a host.
                self.assertGreaterEqual(one["traffic"][peer], size / 2, said)
        for peer in set(PEERS) - set(record["series"]):
            self.assertIn(f"{peer} is left out: ", said)

    def test_one_rank_a_host(self):
        status, said = self.run_it("--series", "openmpi,gloo,bound", "--sizes", "64K")
        self.assertEqual(status, 0, said)
        self.assertEqual(self.record()["fabric"]["host_of_rank"], ["host0", "host1"])
        for one in self.record()["results"]:
            self.assertEqual(set(one["times_us"]), set(self.record()["series"]), said)

    def test_ours_at_one_host(self):
        status, said = self.run_it("--hosts", "host0:3", "--series", "harmonaize,bound",
                                   "--collectives", "all", "--sizes", "4000")
        self.assertEqual(status, 0, said)
        self.assertIn("bound is left out", said)
        results = self.record()["results"]
        self.assertEqual(len(results), 9)
        for one in results:
            self.assertEqual(len(one["times_us"].get("harmonaize", [])), 1, said)

    def test_ours_across_two_hosts(self):
        size = 64 << 10
        status, said = self.run_it("--hosts", "host0:2,host1:1", "--series",
                                   "harmonaize,static-ring,fixed-ring,bound", "--collectives",
                                   "all_reduce,broadcast", "--sizes", f"8,{size}")
        self.assertEqual(status, 0, said)
        record = self.record()
        self.assertEqual(record["fabric"]["host_of_rank"], ["host0", "host0", "host1"])
        self.assertEqual(record["series"], ["harmonaize", "static-ring", "fixed-ring", "bound"])
        self.assertEqual([(one["collective"], one["size"]) for one in record["results"]],
                         [("all_reduce", 8), ("all_reduce", size), ("broadcast", 8),
                          ("broadcast", size)])
        for one in record["results"]:
            self.assertEqual(one["errors"], {}, said)
            # A ring is no plan of a broadcast.
            rings = ["fixed-ring"] if one["collective"] == "all_reduce" else []
            ours = ["harmonaize", "static-ring", *rings]
            self.assertEqual({name for name, times in one["times_us"].items() if times},
                             {*ours, "bound"}, said)
            for name in ours:
                self.assertGreater(one["times_us"][name][0], 0, said)
                self.assertEqual(one["iterations"][name], 5, said)
            for name in ours if one["size"] == size else ():
                # Into each host that lacks it, once at least.
                hosts = 2 if one["collective"] == "all_reduce" else 1
                self.assertGreaterEqual(one["traffic"][name], 0.9 * hosts * size, said)

    def test_ours_in_one_rack(self):
        status, said = self.run_it("--fabric", ONE_RACK, "--series", "harmonaize",
                                   "--collectives", "all", "--sizes", "64K", "--buffers",
                                   "registered")
        self.assertEqual(status, 0, said)
        record = self.record()
        self.assertEqual(record["fabric"]["host_of_rank"], ["host0", "host1", "host2", "host3"])
        self.assertEqual(record["fabric"]["buffers"], "registered")
        self.assertEqual(len(record["results"]), 9)
        for one in record["results"]:
            self.assertEqual(one["errors"], {}, said)
            self.assertEqual(len(one["times_us"]["harmonaize"]), 1, said)
            self.assertGreater(one["traffic"]["harmonaize"], 0, said)

    def test_a_laboratory_that_is_up_stays(self):
        self.assertEqual(fabric("up", TWO_HOSTS, "--name", NAME).returncode, 0)
        try:
            status, said = self.run_it("--series", "bound", "--sizes", "1M")
            self.assertEqual(status, 0, said)
            self.assertEqual(fabric("status", "--name", NAME).returncode, 0)
        finally:
            fabric("down", "--name", NAME)

    def test_an_interrupted_run_takes_everything_down(self):
        process = subprocess.Popen(self.command("--hosts", "host0:2,host1:2", "--series",
                                                "openmpi,gloo,bound", "--sizes", "8,1K,64K",
                                                "--rounds", "100000"),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with process:
            for line in process.stdout:
                if "is brought up" in line:
                    break
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
            rest = process.stdout.read()
        self.assertEqual(process.returncode, 130, rest)
        self.assertTrue(self.record()["interrupted"])

    def test_what_is_asked_wrongly_is_named(self):
        status, said = self.run_it("--hosts", "hots1", "--sizes", "8")
        self.assertEqual(status, 1)
        self.assertIn("did you mean 'host1'", said)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as state:
        os.environ["HARMONAIZE_FABRIC_STATE"] = os.path.join(state, "fabric")
        reason = reason_to_skip()
        if reason:
            print(f"skipped: {reason}")
            sys.exit(SKIPPED)
        sys.exit(not unittest.main(exit=False, verbosity=2).result.wasSuccessful())
