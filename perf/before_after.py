#!/usr/bin/env python3
"""Small operations of two builds, turn and turn about: compare's times of the one and the other in pairs,
and the ratio of each pair, so that a machine that others use meets both alike.

    before_after.py BEFORE AFTER [--pairs N] [--sizes LIST] [--collectives LIST] [--realtime]

BEFORE and AFTER are the builds' folders of programs (build/release/bin). Each pair is measured in two ways:
as daemons choose (small operations go inline, past the daemon), and with every operation through the daemon
(`inline.enabled = false`). With --realtime all runs at real-time priority, as compare's does: in short
runs, on a machine on which others work.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

COMPARE = pathlib.Path(__file__).resolve().parent / "compare" / "compare"
WAYS = {"as chosen": "", "by the daemon": "[inline]\nenabled = false\n"}
SERIES = ("registered", "heap")


class Daemon:
    """A daemon of one build, for one measurement."""

    def __init__(self, programs, folder, config, realtime):
        folder.mkdir(exist_ok=True)
        file = folder / "provider.toml"
        file.write_text("[calibration]\nagain = false\n" + config)
        self.socket = str(folder / "d.sock")
        words = [str(pathlib.Path(programs) / "harmonaized"), "--socket", self.socket, "--config",
                 str(file), "--log-level", "error"]
        self.process = subprocess.Popen(
            (["chrt", "-f", "1"] if realtime else []) + words,
            env=dict(os.environ, STATE_DIRECTORY=str(folder / "state")))
        deadline = time.monotonic() + 30
        while not os.path.exists(self.socket):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"the daemon of {programs} does not come up")
            time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def measure(options, programs, folder, config):
    """Microseconds by collective, size and series: the median of compare's rounds."""
    daemon = Daemon(programs, folder, config, options.realtime)
    result = folder / "result.json"
    try:
        words = [str(COMPARE), "--programs", programs, "--daemon", daemon.socket, "--series",
                 ",".join(SERIES), "--collectives", options.collectives, "--ranks", "2", "--sizes",
                 options.sizes, "--rounds", "3", "--json", str(result)]
        done = subprocess.run(words + (["--realtime"] if options.realtime else []),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if not result.exists():
            raise RuntimeError(done.stdout)
    finally:
        daemon.stop()
    return {(row["collective"], row["size"], series): statistics.median(row["times_us"][series])
            for row in json.loads(result.read_text())["results"] for series in SERIES
            if row["times_us"].get(series)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--sizes", default="8,1K,64K")
    parser.add_argument("--collectives", default="all_reduce")
    parser.add_argument("--realtime", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hz-pairs-") as name:
        folder = pathlib.Path(name)
        for way, config in WAYS.items():
            pairs = []
            for pair in range(options.pairs):
                order = ("before", "after") if pair % 2 == 0 else ("after", "before")
                pairs.append({build: measure(options, getattr(options, build), folder / build, config)
                              for build in order})
            print(f"{way}: {options.pairs} pairs, median us before and after, after/before with its "
                  "quartiles", flush=True)
            for key in pairs[0]["before"]:
                before, after = ([pair[build][key] for pair in pairs] for build in ("before", "after"))
                low, middle, high = statistics.quantiles([b / a for a, b in zip(before, after)], n=4)
                print(f"  {key[0]:14s} {key[1]:8d} B {key[2]:10s} {statistics.median(before):9.2f} "
                      f"{statistics.median(after):9.2f}  {middle:.3f} ({low:.3f} to {high:.3f})",
                      flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
