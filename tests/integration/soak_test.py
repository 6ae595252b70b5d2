#!/usr/bin/env python3
"""Three jobs of two tenants beside each other while links lose their rates, are cut and mended, and
strangers send: every result is right, every job goes on to its end, and afterwards all links are well
again.

    soak_test.py PROGRAMS

PROGRAMS is the folder of fabric, harmonaize and timeline_perf. HARMONAIZE_SOAK_SECONDS: for how long
(12); HARMONAIZE_SOAK_SEED: of what is drawn; HARMONAIZE_SOAK_CONTROLLER: the host whose daemon is
the controller (host0), nothing for none. Without setpriv all jobs are one tenant's. Exit status 77:
the laboratory cannot be used here.
"""

import os
import random
import sys
import time

from live_laboratory import (PATIENCE_SECONDS, eventually, laboratory_of, lines_of,
                             others_can_run)

JOBS = (("-b", "16K"), ("-b", "512K"), ("-b", "256K", "-k", "all_gather", "-c", "0.02"))
SPINE_LINKS = [f"leaf{leaf}-spine{spine}" for leaf in (0, 1) for spine in (0, 1)]
OTHER_USER = 1001  # the last job's


class Disturber:
    """Draws what happens next. One link at most is cut, so that a way is left."""

    def __init__(self, laboratory, seed):
        self.laboratory = laboratory
        self.random = random.Random(seed)
        self.cut = None
        self.flows = 0

    def once(self):
        self.random.choice((self.slow_down, self.slow_down, self.cut_or_mend, self.flow))()

    def slow_down(self):
        rate = self.random.choice(("6Mbit", "12Mbit", "30Mbit", "nominal"))
        self.say("rate", self.random.choice(SPINE_LINKS), rate)

    def cut_or_mend(self):
        if self.cut is not None:
            self.mend()
            return
        self.cut = self.random.choice(SPINE_LINKS)
        self.say("link-down", self.cut, *self.random.choice(([], ["--silent"])))

    def mend(self):
        if self.cut is not None:
            self.say("link-up", self.cut)
        self.cut = None

    def flow(self):
        if self.flows > 0:
            self.say("flow-end")
            self.flows = 0
            return
        if self.cut is not None:  # it could not connect
            self.slow_down()
            return
        self.flows += 1
        self.say("flow", self.random.choice(("host0", "host1")),
                 self.random.choice(("host2", "host3")), "--rate", "20Mbit",
                 "--path", str(self.random.randrange(2)))

    def end(self):
        self.mend()
        if self.flows > 0:
            self.say("flow-end")
        for link in SPINE_LINKS:
            self.say("rate", link, "nominal")

    def say(self, *words):
        print("disturb", *words, flush=True)
        self.laboratory.disturb(*words)


def without_rates(log):
    """What a daemon has said, but for the rates of links, of which there is much."""
    return "".join(line for line in log.read_text().splitlines(keepends=True)
                   if " links: " not in line)


def soak(laboratory, outputs, seconds, seed):
    users = [None] * (len(JOBS) - 1)
    users.append(OTHER_USER if others_can_run(laboratory.timeline) else None)
    jobs = []
    for output, words, user in zip(outputs, JOBS, users):
        with output.open("w") as file:
            jobs.append(laboratory.start_job(file, seconds + 4 * PATIENCE_SECONDS, *words, user=user))
    disturber = Disturber(laboratory, seed)
    try:
        eventually("all jobs run", lambda: all(lines_of(output) for output in outputs), jobs)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            disturber.once()
            time.sleep(disturber.random.uniform(0.2, 3))
            ended = [job.poll() for job in jobs if job.poll() is not None]
            assert not ended, f"a job ended with {ended[0]}"
        disturber.end()
        before = [len(lines_of(output)) for output in outputs]
        eventually("all jobs go on", lambda: all(
            len(lines_of(output)) > lines + 2 for output, lines in zip(outputs, before)), jobs)
        laboratory.all_links_are_well(jobs)
    finally:
        laboratory.enough()
        states = [job.wait() for job in jobs]
    # Every rank has looked at what it got.
    assert states == [0] * len(jobs), f"the jobs ended with {states}"


def main():
    seconds = float(os.environ.get("HARMONAIZE_SOAK_SECONDS", "12"))
    seed = int(os.environ.get("HARMONAIZE_SOAK_SEED", "5"))
    controller = os.environ.get("HARMONAIZE_SOAK_CONTROLLER", "host0")
    with laboratory_of(sys.argv[1], shared=True) as laboratory:
        folder = laboratory.folder
        outputs = [folder / f"job{number}" for number in range(len(JOBS))]
        try:
            laboratory.serve(*(["--controller", controller] if controller else []))
            soak(laboratory, outputs, seconds, seed)
        except AssertionError:
            for output in outputs:
                print(f"== {output.name}\n{output.read_text()[-2000:]}")
            for log in sorted(folder.glob("state/*/hosts/*/harmonaized.log")):
                print(f"== {log.parent.name}\n{without_rates(log)[-5000:]}")
            raise


if __name__ == "__main__":
    main()
