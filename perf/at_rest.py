#!/usr/bin/env python3
"""Processor time of daemons at rest, of several builds at the same time, so that what else the machine
does meets all of them alike.

    at_rest.py NAME=PROGRAMS... [--seconds N] [--pairs N]

NAME=PROGRAMS is a build and its folder of harmonaized, such as before=../before/build/release/bin. Each
build's daemon runs without any job. Of each interval the processor time (by /proc/PID/task/*/schedstat),
the wake-ups (voluntary context switches), the threads and the resident memory are told.
"""

import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SETTLE_SECONDS = 5


def start(name, programs, folder):
    own = folder / name
    own.mkdir()
    config = own / "provider.toml"
    config.write_text("[calibration]\nagain = false\n")
    environment = dict(os.environ, STATE_DIRECTORY=str(own / "state"))
    return subprocess.Popen(
        [str(pathlib.Path(programs) / "harmonaized"), "--socket", str(own / "d.sock"), "--config",
         str(config), "--log-level", "error"], env=environment)


def used(process):
    """Nanoseconds of processor time and wake-ups so far, threads, resident KiB."""
    nanoseconds = wake_ups = threads = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        nanoseconds += int((task / "schedstat").read_text().split()[0])
        threads += 1
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                wake_ups += int(line.split()[1])
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0])
    return nanoseconds, wake_ups, threads, resident


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("builds", nargs="+")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    builds = dict(build.split("=", 1) for build in options.builds)
    with tempfile.TemporaryDirectory(prefix="harmonaize-rest-") as name:
        processes = {build: start(build, programs, pathlib.Path(name))
                     for build, programs in builds.items()}
        try:
            time.sleep(SETTLE_SECONDS)
            times = {build: [] for build in builds}
            for pair in range(options.pairs):
                before = {build: used(process) for build, process in processes.items()}
                time.sleep(options.seconds)
                for build, process in processes.items():
                    now = used(process)
                    times[build].append((now[0] - before[build][0]) * 1e-6)
                    print(f"{pair} {build:10s} {times[build][-1]:8.2f} ms in {options.seconds:.0f} s, "
                          f"{now[1] - before[build][1]} wake-ups, {now[2]} threads, {now[3]} KiB",
                          flush=True)
            for build, each in times.items():
                print(f"{build:12s} median {statistics.median(each):.2f} ms of "
                      f"{options.seconds:.0f} s: {statistics.median(each) / options.seconds / 10:.4f} %")
        finally:
            for process in processes.values():
                process.send_signal(signal.SIGTERM)
                process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
