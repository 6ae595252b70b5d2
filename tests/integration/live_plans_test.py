#!/usr/bin/env python3
"""A link loses four fifths of its rate while a job runs, and recovers, and then is cut, and mended:
the daemon of the job's home finds out which one it is, plans follow, and no result is wrong.

    live_plans_test.py PROGRAMS

PROGRAMS is the folder of fabric, harmonaize and timeline_perf. Links are slow here, so that it is
they that hold the job up, and not the machine, under sanitizers too. Nothing is timed: the test waits
for what has to come. Exit status 77: the laboratory cannot be used here.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

FABRIC = """
[[host]]
name = ["host0", "host1"]
rack = "rack0"
[[host]]
name = ["host2", "host3"]
rack = "rack1"
[[switch]]
name = "leaf0"
rack = "rack0"
[[switch]]
name = "leaf1"
rack = "rack1"
[[switch]]
name = ["spine0", "spine1"]
role = "spine"
[[link]]
from = ["host0", "host1"]
to = "leaf0"
rate = "100Mbit"
[[link]]
from = ["host2", "host3"]
to = "leaf1"
rate = "100Mbit"
[[link]]
from = ["leaf0", "leaf1"]
to = ["spine0", "spine1"]
rate = "60Mbit"
"""
PATIENCE_SECONDS = 60
JOB_SECONDS = 2 * PATIENCE_SECONDS


class Laboratory:
    def __init__(self, programs, folder):
        self.fabric = str(programs / "fabric")
        self.harmonaize = str(programs / "harmonaize")
        self.timeline = str(programs / "timeline_perf")
        self.folder = folder
        self.name = f"live{os.getpid()}"
        self.environment = dict(os.environ, HARMONAIZE_FABRIC_STATE=str(folder / "state"))

    def run(self, *words, check=True):
        done = subprocess.run([self.fabric, *words], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"fabric {' '.join(words)}: {done.stdout}")
        return done

    def up(self):
        file = self.folder / "fabric.toml"
        file.write_text(FABRIC)
        return self.run("up", str(file), "--name", self.name, check=False)

    def down(self):
        self.run("down", "--name", self.name)

    def start_job(self, output):
        return subprocess.Popen(
            [self.fabric, "run", "--name", self.name, "--no-prefix", "--no-preload", "--",
             self.timeline, "-b", "512K", "-s", str(JOB_SECONDS), "--json",
             "--until", str(self.folder / "enough")],
            env=self.environment, stdout=output, stderr=subprocess.STDOUT, text=True)

    def disturb(self, *words):
        self.run("disturb", *words, "--name", self.name)

    def ask_home(self, *words):
        """What the daemon of rank 0's host says, as a document; None while it does not."""
        socket = self.folder / "state" / self.name / "hosts" / "host0" / "harmonaized.sock"
        done = subprocess.run([self.harmonaize, *words, "--json", "--socket", str(socket)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def slow_links(self):
        """Edges of which plans expect less than half of what the fabric states."""
        status = self.ask_home("status") or {}
        links = status.get("cluster", {}).get("fabric_links", [])
        return {(link["from"], link["to"]) for link in links
                if link["planned_bytes_per_second"] < 0.5 * link["stated_bytes_per_second"]}


def eventually(what, condition, job):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if condition():
            return
        if job.poll() is not None:
            raise AssertionError(f"the job ended with {job.returncode} before {what}")
        time.sleep(0.2)
    raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what}")


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


def check(laboratory, folder):
    output = folder / "job"
    try:
        disturb_and_watch(laboratory, folder, output)
    except AssertionError:
        print(output.read_text())
        raise


def disturb_and_watch(laboratory, folder, output):
    with output.open("w") as file:
        job = laboratory.start_job(file)
    try:
        eventually("the job runs", lambda: len(lines_of(output)) > 3, job)
        assert laboratory.slow_links() == set(), laboratory.slow_links()
        laboratory.disturb("rate", "leaf0-spine0", "12Mbit")
        eventually("the slow link is found, both ways",
                   lambda: laboratory.slow_links() >= {("leaf0", "spine0"), ("spine0", "leaf0")}, job)
        before = len(lines_of(output))
        eventually("the job goes on", lambda: len(lines_of(output)) > before + 3, job)
        laboratory.disturb("rate", "leaf0-spine0", "nominal")
        eventually("all links are well again", lambda: laboratory.slow_links() == set(), job)
        laboratory.disturb("link-down", "leaf1-spine1", "--silent")
        eventually("the cut link is found, both ways",
                   lambda: laboratory.slow_links() >= {("leaf1", "spine1"), ("spine1", "leaf1")}, job)
        before = len(lines_of(output))
        eventually("the job goes on beside the cut",
                   lambda: len(lines_of(output)) > before + 3, job)
        laboratory.disturb("link-up", "leaf1-spine1")
        eventually("the mended link is used again", lambda: laboratory.slow_links() == set(), job)
        history = (laboratory.ask_home("explain", "1", "--history") or {}).get("history", [])
        for change in history:
            assert change["outcome"] in ("committed", "called off", "under way"), change
            assert "carries" in change["reason"] or "carry" in change["reason"], change
        print(f"{len(history)} changes of plans")
    finally:
        (folder / "enough").touch()
        status = job.wait()
    # Every rank has looked at what it got.
    assert status == 0, f"the job ended with {status}"


def main():
    programs = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        laboratory = Laboratory(programs, folder)
        up = laboratory.up()
        if up.returncode != 0:
            print(up.stdout)
            sys.exit(77 if os.geteuid() != 0 else 1)
        try:
            check(laboratory, folder)
        finally:
            laboratory.down()


if __name__ == "__main__":
    main()
