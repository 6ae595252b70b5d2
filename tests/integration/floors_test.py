#!/usr/bin/env python3
"""A job has a floor on the link between two racks, beside one of another tenant that sends all it can:
the controller promises the floor and holds the other one back. A second floor, for which there is no
room, is refused. When the link carries less than was promised, the job is told that its floor is
missed, and that it is kept again when the link is mended. Then two jobs of one tenant have floors that
the link has room for, but that exceed together what the policy promises to the tenant: one of them is
refused, and told so. Every result is checked.

    floors_test.py PROGRAMS

PROGRAMS is the folder of fabric, harmonaize and timeline_perf. Nothing is timed: the test
waits for what has to come. Exit status 77: the laboratory cannot be used here.
"""

import json
import pathlib
import subprocess
import sys

from controller_test import CONTROLLER, FABRIC, OTHER_USER, controller_of, held_back
from live_laboratory import PATIENCE_SECONDS, eventually, laboratory_of, lines_of, why_no_users

JOB_SECONDS = 6 * PATIENCE_SECONDS
# Links carry 7.5 MB/s, of which 6 MB/s can be promised, and half is a share.
FLOOR = 5e6
CONFIGURATION = '[policy]\nmost_bandwidth_floor = "1 GB/s"\n'
REQUIREMENTS = '[collectives]\nbandwidth_floor = "5 MB/s"\n'
THIRD_USER = 1002
# The link has room for two such floors, and the tenant's bound for one.
BOUND_CONFIGURATION = '[policy]\nmost_bandwidth_floor = "2 MB/s"\n'
BOUND_REQUIREMENTS = '[collectives]\nbandwidth_floor = "1.5 MB/s"\n'


def floors(laboratory):
    """How the floors of the jobs that the controller knows fare, by user."""
    return {job["uid"]: job["floor"]
            for job in controller_of(laboratory, CONTROLLER).get("jobs", [])}


def events(laboratory, kind):
    """The events of this kind that host0 has told."""
    socket = laboratory.folder / "state" / laboratory.name / "hosts" / "host0" / "harmonaized.sock"
    done = subprocess.run([laboratory.harmonaize, "events", "--json", "--types", kind, "--socket",
                           str(socket)], text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    return [json.loads(line)["data"] for line in done.stdout.splitlines()]


def why_refused(laboratory, hosts):
    """What the communicators of these hosts are told of floors that are refused."""
    told = []
    for host in hosts:
        for tenant in (laboratory.ask_home("status", host=host) or {}).get("tenants", []):
            for communicator in tenant["communicators"]:
                explained = laboratory.ask_home("explain", str(communicator["id"]), host=host) or {}
                told.append(explained.get("sharing", {}).get("why", ""))
    return [why for why in told if why]


def watch_one_tenant(laboratory, start, jobs):
    jobs.append(start("first", ("host0", "host2"), OTHER_USER, True))
    jobs.append(start("second", ("host1", "host3"), OTHER_USER, True))

    def fates():
        return sorted(job["floor"] for job in controller_of(laboratory, CONTROLLER).get("jobs", []))
    eventually("one of the tenant's floors is refused", lambda: fates() == ["kept", "refused"], jobs,
               seen=lambda: f"there is {controller_of(laboratory, CONTROLLER)}")
    eventually("it is told why", lambda: any(
        "to this tenant" in why for why in why_refused(laboratory, ("host0", "host1"))), jobs,
               seen=lambda: f"there is {why_refused(laboratory, ('host0', 'host1'))}")


def watch(laboratory, start, jobs):
    jobs.append(start("greedy", ("host1", "host3"), OTHER_USER, False))
    jobs.append(start("promised", ("host0", "host2"), None, True))
    eventually("the floor is promised", lambda: floors(laboratory).get(0) == "kept", jobs,
               seen=lambda: f"there is {controller_of(laboratory, CONTROLLER)}")
    eventually("the other one is held back for it",
               lambda: held_back(laboratory) == {OTHER_USER}, jobs)
    jobs.append(start("late", ("host1", "host3"), THIRD_USER, True))
    eventually("a second floor is refused",
               lambda: floors(laboratory).get(THIRD_USER) == "refused", jobs)
    assert floors(laboratory)[0] == "kept", floors(laboratory)
    laboratory.disturb("rate", "leaf0-leaf1", "15Mbit")
    eventually("the floor is told as missed",
               lambda: events(laboratory, "requirement.unmet"), jobs,
               seen=lambda: f"there is {controller_of(laboratory, CONTROLLER)}")
    told = events(laboratory, "requirement.unmet")[0]
    assert told["requirement"] == "bandwidth_floor" and told["granted"] == FLOOR, told
    assert told["measured"] < FLOOR, told
    laboratory.disturb("rate", "leaf0-leaf1", "nominal")
    eventually("the floor is told as kept again",
               lambda: events(laboratory, "requirement.met"), jobs)


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    if why := why_no_users(programs / "timeline_perf"):
        print(why)
        return 77
    try_it(programs, CONFIGURATION, REQUIREMENTS, ("greedy", "promised", "late"), watch)
    try_it(programs, BOUND_CONFIGURATION, BOUND_REQUIREMENTS, ("first", "second"), watch_one_tenant)
    return 0


def try_it(programs, configuration, requirements, names, watched):
    """Jobs of these names, which `watched` starts and watches."""
    with laboratory_of(programs, FABRIC, shared=True) as laboratory:
        folder = laboratory.folder
        (folder / "provider.toml").write_text(configuration)
        (folder / "job.toml").write_text(requirements)
        jobs = []

        def start(name, hosts, user, asks):
            with (folder / name).open("w") as file:
                return laboratory.start_job(file, JOB_SECONDS, "-b", "256K", hosts=hosts, user=user,
                                            requirements=folder / "job.toml" if asks else None)

        try:
            laboratory.serve("--controller", CONTROLLER, "--daemon-config",
                             str(folder / "provider.toml"))
            watched(laboratory, start, jobs)
            laboratory.enough()
            ends = [job.wait(timeout=PATIENCE_SECONDS) for job in jobs]
            assert ends == [0] * len(jobs), ends
            assert all(lines_of(folder / name) for name in names)
        except AssertionError:
            for name in names:
                print((folder / name).read_text()[-2000:] if (folder / name).exists() else "")
            raise
        finally:
            laboratory.enough()


if __name__ == "__main__":
    sys.exit(main())
