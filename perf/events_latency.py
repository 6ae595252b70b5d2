#!/usr/bin/env python3
"""Latency from the cause of an event to those who hear of it: a thousand streams of server-sent events at
one daemon, and callbacks of hzSubscribe, on the cause's host and on another one.

    events_latency.py [PROGRAMS] [--streams N] [--events N] [--callbacks N]

PROGRAMS is the folder of harmonaized and events_latency (build/release/bin). The two daemons stand for two
hosts on the loopback device. The cause is an operator's POST /v1/events; it ends when a stream, or a
callback, has the event. A callback is one of Python, in a process of its own for each rank.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))

from live_daemons import eventually, two_daemons  # pylint: disable=wrong-import-position
from live_job import EVENT_CALLBACK, Ranks  # pylint: disable=wrong-import-position

MARK = "cause at "


def quantiles(latencies):
    latencies = sorted(latencies)
    if not latencies:
        return "nothing heard"
    return (f"median {latencies[len(latencies) // 2]:.2f} ms, "
            f"p99 {latencies[int(0.99 * (len(latencies) - 1))]:.2f} ms, {len(latencies)} heard")


class Listener:
    """A rank that hears of events by callbacks."""

    def __init__(self, folder, callbacks):
        self.folder = folder
        self.callbacks = callbacks

    def __call__(self, library, communicator, _):
        communicator.all_reduce(16)
        heard = []

        def hear(event, _):
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            text = json.loads(event.contents.json)["data"].get("text", "")
            if text.startswith(MARK):
                heard.append((now - int(text[len(MARK):])) * 1e-6)
        callback = EVENT_CALLBACK(hear)
        for _ in range(self.callbacks):
            handle = ctypes.c_void_p()
            code = library.calls.hzSubscribe(communicator.handle, None, None, callback, None,
                                             ctypes.byref(handle))
            if code != 0:
                raise AssertionError(library.last_error())
        while not (self.folder / "enough").exists():
            time.sleep(0.05)
        return json.dumps(heard)


def measure(options, daemons, folder, streams_at):
    """One measurement with the streams at the daemon of this number; the cause is at daemon 0."""
    (folder / "enough").unlink(missing_ok=True)
    ranks = Ranks(options.programs.parent / "lib" / "libnccl.so.2",
                  [daemon.socket for daemon in daemons], Listener(folder, options.callbacks),
                  environment={"HARMONAIZE_JOB": f"latency{streams_at}"})
    try:
        job = eventually("the job is there", lambda: [
            one["id"] for one in daemons[0].as_tenant("GET", "/v1/jobs").json()["jobs"]
            if one["name"] == f"latency{streams_at}"])[0]
        ticks = [ticks_of(daemon) for daemon in daemons]
        subprocess.run([str(options.programs / "events_latency"), "--streams-at",
                        daemons[streams_at].socket + ".http", "--cause-at",
                        daemons[0].socket + ".operator.http", "--job", job, "--streams",
                        str(options.streams), "--events", str(options.events)], check=True)
        print("processor time of the daemons, opening the streams included:",
              *(f"{ticks_of(daemon) - before:.2f} s" for daemon, before in zip(daemons, ticks)))
    finally:
        (folder / "enough").touch()
        ranks.wait(30)
    for where, said in zip(("the cause's host", "the other host"), ranks.said):
        print(f"{options.callbacks} callbacks on {where}: {quantiles(json.loads(said))}", flush=True)


def ticks_of(daemon):
    fields = pathlib.Path(f"/proc/{daemon.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path, nargs="?",
                        default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--callbacks", type=int, default=4)
    options = parser.parse_args()
    options.programs = options.programs.absolute()
    with two_daemons(options.programs) as (folder, daemons):
        for streams_at, where in enumerate(("the cause's host", "another host")):
            print(f"== streams on {where}", flush=True)
            measure(options, daemons, folder, streams_at)
    return 0


if __name__ == "__main__":
    sys.exit(main())
