#!/usr/bin/env python3
"""Two tenants whose jobs have no host in common share the links between two racks. The controller
finds out who has more than its share and holds it back; where both compute and send by turns it lets
them send one after the other. When its daemon is killed the jobs go on, and nobody is held back or
waits for a turn any more. Every result is checked.

    controller_test.py PROGRAMS

PROGRAMS is the folder of fabric, harmonaize and timeline_perf. Nothing is timed: the test
waits for what has to come. Exit status 77: the laboratory cannot be used here.
"""

import pathlib
import sys

from live_laboratory import (PATIENCE_SECONDS, eventually, laboratory_of, lines_of,
                             why_no_users)

JOB_SECONDS = 4 * PATIENCE_SECONDS
# The controller's host has no ranks. Root's job has eight times the weight of the other one.
FABRIC = """
[[host]]
name = ["host0", "host1", "host4"]
rack = "rack0"
[[host]]
name = ["host2", "host3"]
rack = "rack1"
[[switch]]
name = ["leaf0"]
rack = "rack0"
[[switch]]
name = ["leaf1"]
rack = "rack1"
[[link]]
from = ["host0", "host1", "host4"]
to = "leaf0"
rate = "60Mbit"
[[link]]
from = ["host2", "host3"]
to = "leaf1"
rate = "60Mbit"
[[link]]
from = "leaf0"
to = "leaf1"
rate = "60Mbit"
"""
CONFIGURATION = '[[share]]\nuser = "0"\nweight = 8\n'
CONTROLLER = "host4"
OTHER_USER = 1001


def controller_of(laboratory, host):
    status = laboratory.ask_home("status", host=host) or {}
    return status.get("cluster", {}).get("controller", {})


def held_back(laboratory):
    """Users whose jobs the controller holds back."""
    return {job["uid"] for job in controller_of(laboratory, CONTROLLER).get("jobs", [])
            if job["held_back_rails"] > 0}


def waited_bursts(laboratory):
    """How many of their bursts have waited for another job's."""
    return {job["uid"]: job["waited_bursts"]
            for job in controller_of(laboratory, CONTROLLER).get("jobs", [])}


def share(laboratory, outputs, jobs):
    # The other one may be held back as well, on a link of which the first one uses little.
    eventually("the one with little weight is held back",
               lambda: OTHER_USER in held_back(laboratory), jobs)
    eventually("its daemon heeds it",
               lambda: controller_of(laboratory, "host1").get("limited_rails", 0) > 0, jobs)
    before = len(lines_of(outputs[1]))
    eventually("it goes on", lambda: len(lines_of(outputs[1])) > before + 2, jobs)


def take_turns(laboratory, outputs, jobs):
    eventually("the one with little weight waits for its turns",
               lambda: waited_bursts(laboratory).get(OTHER_USER, 0) > 3, jobs)
    before = [len(lines_of(one)) for one in outputs]
    eventually("both go on", lambda: all(
        len(lines_of(one)) > count + 2 for one, count in zip(outputs, before)), jobs)


def groups_take_turns(laboratory, outputs, jobs):
    """Also the bursts of communicators that have no rank on the host that looks after them."""
    def enough_waited():
        waited = [job["waited_bursts"] for job in controller_of(laboratory, CONTROLLER).get("jobs", [])]
        return len(waited) == 2 and min(waited) > 3
    eventually("both groups wait for their turns", enough_waited, jobs)


TWO_TENANTS = ((("host0", "host2"), None), (("host1", "host3"), OTHER_USER))
ONE_TENANT = ((("host0", "host1", "host2", "host3"), None),)


def watch(laboratory, outputs, words, placement, controlled):
    """Jobs of these words, until `controlled` has come about, and then without the controller."""
    jobs = []
    for output, (hosts, user) in zip(outputs, placement):
        with output.open("w") as file:
            jobs.append(laboratory.start_job(file, JOB_SECONDS, *words, hosts=hosts, user=user))
    try:
        eventually("all jobs run", lambda: all(len(lines_of(one)) > 3 for one in outputs), jobs)
        controlled(laboratory, outputs, jobs)
        laboratory.disturb("kill", CONTROLLER, "daemon")
        eventually("nobody is held back any more",
                   lambda: controller_of(laboratory, "host1").get("limited_rails", 1) == 0, jobs)
        eventually("the controller is missed",
                   lambda: not controller_of(laboratory, "host1")["follows"], jobs)
        before = [len(lines_of(one)) for one in outputs]
        eventually("all go on without it", lambda: all(
            len(lines_of(one)) > count + 3 for one, count in zip(outputs, before)), jobs)
    finally:
        laboratory.enough()
        ends = [job.wait(timeout=PATIENCE_SECONDS) for job in jobs]
    assert ends == [0] * len(jobs), ends


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    if why := why_no_users(programs / "timeline_perf"):
        print(why)
        return 77
    # The second ones pause for less than a burst takes, so that one of them always has to wait.
    try_it(programs, ("-b", "512K"), TWO_TENANTS, share)
    try_it(programs, ("-b", "512K", "-c", "0.03"), TWO_TENANTS, take_turns)
    try_it(programs, ("-b", "512K", "-c", "0.03", "-g", "2"), ONE_TENANT, groups_take_turns)
    return 0


def try_it(programs, words, placement, controlled):
    with laboratory_of(programs, FABRIC, shared=True) as laboratory:
        folder = laboratory.folder
        outputs = [folder / f"job{number}" for number in range(len(placement))]
        (folder / "provider.toml").write_text(CONFIGURATION)
        try:
            laboratory.serve("--controller", CONTROLLER, "--daemon-config",
                             str(folder / "provider.toml"))
            watch(laboratory, outputs, words, placement, controlled)
        except AssertionError:
            for output in outputs:
                print(output.read_text()[-2000:] if output.exists() else "")
            raise


if __name__ == "__main__":
    sys.exit(main())
