#!/usr/bin/env python3
"""NCCL's net plugin beside TCP as NCCL's socket transport uses it, between two hosts of the laboratory's
two-racks fabric, undisturbed and beside other hosts' flows on one of the two spines.

    net_compare.py PROGRAMS [--seconds S] [--repeats N] [--ports N] [--json FILE]

PROGRAMS is the build's folder of programs (build/release/bin). Needs root. The plugin is measured several
times, each time with new daemons that know of no congestion. Which spine a plain connection takes is decided
by its ports, so sockets are measured from several source ports, and the mean stands in the table. "first" is
the first half second of a connection, "then" what follows. A machine that others use meets all patterns
alike: they take turns. Prints the table of docs/nccl-plugins.md.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

FABRIC = pathlib.Path(__file__).resolve().parent.parent / "fabric" / "fabrics" / "two-racks.toml"
HOSTS = "host0,host2"
# The flows leave host1 by one NIC, and fill the first spine's links.
FLOWS = [["flow", "host1", "host3", "--rate", "500Mbit", "--path", "0"]] * 3
FIRST_PORT = 7000
# Connections of NCCL's, one for each channel; TCP streams of each connection.
PATTERNS = {
    "plugin": ["--carrier", "plugin"],
    "plugin, 4 connections": ["--carrier", "plugin", "--connections", "4"],
    "1 stream": ["--carrier", "sockets", "--streams", "1"],
    "4 streams": ["--carrier", "sockets", "--streams", "4"],
    "4 connections of 1 stream": ["--carrier", "sockets", "--connections", "4"],
}
STATES = {"undisturbed": [], "a spine is congested": FLOWS}
# Seconds until the flows have filled the queues.
SETTLE_SECONDS = 2


class Laboratory:
    def __init__(self, programs, folder):
        self.programs = programs
        self.name = f"netcompare{os.getpid()}"
        self.environment = dict(os.environ, HARMONAIZE_FABRIC_STATE=str(folder))

    def fabric(self, *words):
        done = subprocess.run([str(self.programs / "fabric"), *words], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"fabric {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    @contextlib.contextmanager
    def up(self):
        self.fabric("up", str(FABRIC), "--name", self.name)
        try:
            yield
        finally:
            self.fabric("down", "--name", self.name)

    def disturb(self, *words):
        self.fabric("disturb", *words, "--name", self.name)

    def measure(self, pattern, options, port):
        words = PATTERNS[pattern]
        plugin = "plugin" in words
        # Daemons of a host without a job would be idle, but nothing is idle enough.
        daemons = [] if plugin else ["--daemon", "none"]
        library = self.programs.parent / "lib" / "nccl-plugins" / "libnccl-net-harmonaize.so"
        own = ["--library", str(library)] if plugin else ["--source-port", str(port)]
        said = self.fabric("run", "--name", self.name, "--no-preload", "--no-prefix", "--hosts", HOSTS,
                           *daemons, "--", str(self.programs / "nccl_net_perf"), *words, *own,
                           "--seconds", str(options.seconds))
        line = next(line for line in said.splitlines() if line.startswith("{"))
        figures = json.loads(line)
        return {"first": figures["first_bytes_per_second"], "then": figures["bytes_per_second"]}


def measure_all(laboratory, options):
    """Figures of each measurement, by state and pattern."""
    found = {state: {pattern: [] for pattern in PATTERNS} for state in STATES}
    for state, disturbances in STATES.items():
        for words in disturbances:
            laboratory.disturb(*words)
        if disturbances:
            time.sleep(SETTLE_SECONDS)
        for turn in range(max(options.repeats, options.ports)):
            for pattern in PATTERNS:
                times = options.repeats if pattern.startswith("plugin") else options.ports
                if turn >= times:
                    continue
                # Ports of one measurement follow each other.
                port = FIRST_PORT + 16 * turn
                found[state][pattern].append(laboratory.measure(pattern, options, port))
                print(f"{state}, {pattern}: {found[state][pattern][-1]}", file=sys.stderr)
    return found


def mean(figures, which):
    return statistics.mean(one[which] for one in figures)


def print_table(found):
    print("| | " + " | ".join(f"{state}, {which}" for state in STATES for which in ("first", "then")) +
          " |")
    print("|---|" + "---:|" * (2 * len(STATES)))
    for pattern in PATTERNS:
        cells = []
        for state in STATES:
            for which in ("first", "then"):
                own = mean(found[state][pattern], which)
                plugin = "plugin, 4 connections" if "4 connections" in pattern else "plugin"
                ratio = mean(found[state][plugin], which) / own
                factor = "" if pattern.startswith("plugin") else f" ({ratio:.1f}x)"
                cells.append(f"{own / 1e6:.0f} MB/s{factor}")
        print(f"| {pattern} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=2.5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ports", type=int, default=20)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        laboratory = Laboratory(options.programs.resolve(), folder)
        with laboratory.up():
            found = measure_all(laboratory, options)
    print_table(found)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
