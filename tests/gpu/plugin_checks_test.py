#!/usr/bin/env python3
"""Tests the checks of NCCL's plugins without a GPU: what they read from NCCL's log, and all else that they do, with a
stand-in for PyTorch (stand_in/). The lines of logs have the form in which NCCL's sources of that release print them.

    plugin_checks_test.py BIN      with the folder of harmonaize and harmonaized
"""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER / "stand_in"))

import nccl_log  # noqa: E402
import plugin_checks  # noqa: E402

SCRIPT = FOLDER.parent.parent / "scripts" / "gpu-checks.sh"


def log(*messages):
    return "".join(f"node-1:4711:4730 [0] NCCL INFO {message}\n" for message in messages)


# NCCL 2.28 and later, and 2.26, whose words differ.
OF_2_28 = "node-1:4711:4711 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>\nNCCL version 2.28.9+cuda13.0\n" + log(
    "NCCL_NET_PLUGIN set by environment to harmonaize",
    "NET/Plugin: Loaded net plugin Harmonaize (v11)",
    "Successfully loaded external network plugin libnccl-net-harmonaize.so",
    "Initialized NET plugin Harmonaize",
    "Assigned NET plugin Harmonaize to comm",
    "TUNER/Plugin: Using Harmonaize (v5)",
    "PROFILER/Plugin: Loaded Harmonaize (v5)",
    "ENV/Plugin: Using Harmonaize (v1)",
    "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Harmonaize/0",
    "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Harmonaize/0",
    "AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
    "AllReduce: 4096 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={0..3}")
OF_2_26 = log("Using network Harmonaize", "TUNER/Plugin: Using tuner plugin Harmonaize",
              "PROFILER/Plugin: loaded Harmonaize")
OF_NO_PLUGIN = log("NET/Plugin: Could not find: harmonaize libnccl-net-harmonaize.so.",
                   "Initialized NET plugin Socket", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
                   "TUNER/Plugin: Failed to find ncclTunerPlugin_v5 symbol.")


class Log(unittest.TestCase):
    def test_names_the_plugins_of_each_kind(self):
        for kind in ("net", "tuner", "profiler", "env"):
            self.assertEqual(nccl_log.used(OF_2_28, kind), ["Harmonaize"], kind)
            self.assertEqual(nccl_log.used(OF_2_26, kind), [] if kind == "env" else ["Harmonaize"], kind)
            self.assertEqual(nccl_log.used(OF_NO_PLUGIN, kind), ["Socket"] if kind == "net" else [], kind)

    def test_names_versions(self):
        self.assertEqual([nccl_log.interface(OF_2_28, kind) for kind in ("net", "tuner", "profiler", "env")],
                         ["v11", "v5", "v5", "v1"])
        self.assertEqual(nccl_log.interface(OF_2_26, "tuner"), "")
        self.assertEqual(nccl_log.release(OF_2_28), "2.28.9+cuda13.0")
        self.assertEqual(nccl_log.release(OF_2_26), "")

    def test_tells_ways_and_choices(self):
        self.assertEqual(nccl_log.channels(OF_2_28), {"NET/Harmonaize": 2})
        self.assertEqual(nccl_log.channels(OF_NO_PLUGIN), {"NET/Socket": 1})
        self.assertEqual(nccl_log.choices(OF_2_28), {("AllReduce", 64): ("RING", "LL", 1),
                                                     ("AllReduce", 4096): ("TREE", "SIMPLE", 4)})
        self.assertEqual(nccl_log.choices(OF_2_26), {})

    def test_tells_where_processes_meet(self):
        self.assertEqual(nccl_log.bootstrap_interface(OF_2_28), "lo")
        self.assertEqual(nccl_log.bootstrap_interface(OF_2_26), "")


STATUS = {"tenants": [{"communicators": [{"name": "nccl-net", "operations": 7}, {"name": "other", "operations": 9}]}]}
PROFILE = {"communicators": [{"rows": [
    {"kind": "collective", "function": "AllReduce", "algorithm": "RING", "protocol": "LL", "timed": "gpu", "events": 8},
    {"kind": "proxy_send", "function": "AllReduce", "algorithm": "RING", "protocol": "LL", "timed": "host",
     "events": 99}]}]}


class Ranks(unittest.TestCase):
    """What one process does, with what the daemon answers."""

    def run_rank(self, part, text=OF_2_28, answer=None, error="0", world=2):
        """Returns the printed line, or why the process ended."""
        variables = {"RANK": "0", "WORLD_SIZE": str(world), "STAND_IN_LOG": text, "STAND_IN_ERROR": error}
        said = io.StringIO()
        with mock.patch.dict(os.environ, variables), mock.patch.object(plugin_checks, "SIZES", [64, 4096]), \
                mock.patch.object(plugin_checks, "CALLS", 2), contextlib.redirect_stdout(said), \
                mock.patch.object(plugin_checks, "ask_daemon", lambda *words: answer), \
                mock.patch.object(plugin_checks.time, "sleep"), \
                mock.patch.object(plugin_checks.time, "monotonic", iter(range(0, 1000, 20)).__next__):
            try:
                plugin_checks.PARTS[part]()
            except SystemExit as end:
                return str(end.code)
        return said.getvalue()

    def test_net(self):
        self.assertIn("NCCL 2.28.9+cuda13.0, net v11: results are right", self.run_rank("rank_net", answer=STATUS))
        self.assertIn("have carried 7 messages", self.run_rank("rank_net", answer=STATUS))
        self.assertIn("has carried no message", self.run_rank("rank_net", answer={"tenants": []}))
        self.assertIn("['Socket']", self.run_rank("rank_net", text=OF_NO_PLUGIN, answer=STATUS))
        self.assertIn("channels go by nothing", self.run_rank("rank_net", text=OF_2_26, answer=STATUS))
        self.assertIn("wrong result", self.run_rank("rank_net", answer=STATUS, error="1"))

    def test_tuner(self):
        self.assertIn("64 B: RING LL on 1, 4096 B: TREE SIMPLE on 4 channels", self.run_rank("rank_tuner"))
        self.assertIn("none of them", self.run_rank("rank_tuner", text=OF_NO_PLUGIN))
        self.assertIn("of no all-reduce of [64, 4096] bytes", self.run_rank("rank_tuner", text=OF_2_26))

    def test_profiler(self):
        self.assertIn("8 all-reduces, 8 of them timed by the GPU", self.run_rank("rank_profiler", answer=PROFILE))
        self.assertIn("knows of 0 all-reduces, and the ranks have made 8",
                      self.run_rank("rank_profiler", answer={"communicators": []}))
        self.assertIn("none of them", self.run_rank("rank_profiler", text=OF_NO_PLUGIN, answer=PROFILE))

    def test_env(self):
        self.assertIn("env v1: NCCL meets on the interface", self.run_rank("rank_env", world=1))
        elsewhere = OF_2_28.replace("lo:127.0.0.1", "eth0:10.0.0.1")
        self.assertIn("meets on eth0", self.run_rank("rank_env", text=elsewhere, world=1))


class Checks(unittest.TestCase):
    """Whole checks: real daemons, real ranks, and the stand-in instead of PyTorch."""

    def check(self, name, text=OF_2_28):
        variables = {**os.environ, "PYTHONPATH": str(FOLDER / "stand_in"), "STAND_IN_LOG": text,
                     "HARMONAIZE_PROGRAM": str(PROGRAMS / "harmonaize")}
        done = subprocess.run([sys.executable, str(FOLDER / "plugin_checks.py"), name], capture_output=True, text=True,
                              env=variables)
        return done.returncode, done.stdout + done.stderr

    def test_env(self):
        status, said = self.check("env")
        self.assertEqual(status, 0, said)
        self.assertIn("NCCL meets on the interface that the provider sets", said)

    def test_failures_of_ranks_are_told(self):
        status, said = self.check("env", text=OF_NO_PLUGIN)
        self.assertEqual(status, 1)
        self.assertIn("rank_env ended with status 1", said)
        self.assertIn("Harmonaize is none of them", said)

    def test_usage(self):
        status, said = self.check("everything")
        self.assertEqual(status, 1)
        self.assertIn("net | tuner | profiler | cost | env", said)

    def test_ratios(self):
        self.assertEqual(plugin_checks.ratios({"1024": 1e-4}, {"1024": 2e-4}), "1024 B: 2.00 (100 us without)")


class Script(unittest.TestCase):
    def run_script(self, *words, path=os.environ["PATH"]):
        return subprocess.run(["bash", str(SCRIPT), *words], capture_output=True, text=True,
                              env={**os.environ, "PATH": path})

    def test_names_all_checks(self):
        named = [line.split()[0] for line in self.run_script("--dry-run").stdout.splitlines()]
        self.assertEqual(named[-len(plugin_checks.CHECKS):], list(plugin_checks.CHECKS))

    def test_every_check_has_a_row(self):
        document = (SCRIPT.parent.parent / "docs" / "gpu-checks.md").read_text()
        for line in self.run_script("--dry-run").stdout.splitlines():
            name, claim = line.split(maxsplit=1)
            self.assertIn(f"| {claim} | `{name}` |", document)

    def test_refuses_what_it_does_not_know(self):
        done = self.run_script("--fast")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown option '--fast'", done.stderr)


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
